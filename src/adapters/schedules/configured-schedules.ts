/** Brings the schedules of the configuration into the store: changed ones are set, those that are gone are deleted. */
import type { Clock } from '../../kit/env/env.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ConfiguredSchedule } from '../../model/http/schedules.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';
import { MAX_SCHEDULES } from '../../model/schedule.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import { isSameSpec, scheduleSpec } from '../../runtime/schedule-view.ts';
import { checkSchedules } from './check.ts';

const SETTER = { tenant: DEFAULT_TENANT, by: 'config', source: 'config' } as const;

export interface ConfiguredSchedulesParts {
  readonly clock: Clock;
  readonly orchestrator: Pick<Orchestrator, 'schedules' | 'reads'>;
  readonly schedules: readonly ConfiguredSchedule[];
}

export class ConfiguredSchedules extends Service {
  readonly #parts: ConfiguredSchedulesParts;
  #schedules: readonly ConfiguredSchedule[];

  constructor(parts: ConfiguredSchedulesParts) {
    super();
    this.#parts = parts;
    this.#schedules = parts.schedules;
  }

  protected onStart(): Promise<void> {
    return this.#bring(this.#schedules);
  }

  protected async onStop(): Promise<void> {}

  /** Brings other schedules into the store. If that fails half-way, the earlier ones are brought back. */
  async apply(schedules: readonly ConfiguredSchedule[]): Promise<void> {
    try {
      await this.#bring(schedules);
    } catch (error) {
      await this.#bring(this.#schedules).catch(() => undefined);
      throw error;
    }
    this.#schedules = schedules;
  }

  async #bring(configured: readonly ConfiguredSchedule[]): Promise<void> {
    const { orchestrator, clock } = this.#parts;
    checkSchedules(configured, clock.now());
    const { schedules, reads } = orchestrator;
    const all = await reads.schedules.records();
    const records = all.filter(({ tenant }) => tenant === DEFAULT_TENANT);
    const wanted = new Map(configured.map(({ name, ...written }) => [name, written]));
    const gone = records.filter(({ name, source }) => source === 'config' && !wanted.has(name));
    const added = [...wanted.keys()].filter((name) => !records.some((record) => record.name === name));
    if (all.length - gone.length + added.length > MAX_SCHEDULES)
      throw new OrchdError('INVALID_PARAMS', `there would be more than ${MAX_SCHEDULES} schedules`, {
        field: 'schedules',
      });
    for (const { name } of gone) await schedules.remove(name, SETTER);
    for (const [name, written] of wanted) {
      const known = records.find((record) => record.name === name && record.source === 'config');
      // One that is unchanged keeps its place: setting it again would lose the ticks of the time without a brain.
      if (!known || !isSameSpec(known, scheduleSpec(written))) await schedules.set(name, written, SETTER);
    }
  }
}
