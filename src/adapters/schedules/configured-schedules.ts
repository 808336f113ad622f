/** Brings the schedules of the configuration into the store: changed ones are set, those that are gone are deleted. */
import { Service } from '../../kit/service.ts';
import type { WrittenSchedule } from '../../model/http/schedules.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import { isSameSpec, scheduleSpec } from '../../runtime/schedule-view.ts';
import { checkSchedules } from './check.ts';

export type ConfiguredSchedule = WrittenSchedule & { readonly name: string };

const SETTER = { tenant: DEFAULT_TENANT, by: 'config', source: 'config' } as const;

export class ConfiguredSchedules extends Service {
  readonly #orchestrator: Pick<Orchestrator, 'schedules' | 'reads'>;
  readonly #schedules: readonly ConfiguredSchedule[];

  constructor(
    orchestrator: Pick<Orchestrator, 'schedules' | 'reads'>,
    schedules: readonly ConfiguredSchedule[],
  ) {
    super();
    this.#orchestrator = orchestrator;
    this.#schedules = schedules;
  }

  protected async onStart(): Promise<void> {
    checkSchedules(this.#schedules);
    const { schedules, reads } = this.#orchestrator;
    const records = (await reads.scheduleRecords()).filter(({ tenant }) => tenant === DEFAULT_TENANT);
    const wanted = new Map(this.#schedules.map(({ name, ...written }) => [name, written]));
    for (const { name, source } of records)
      if (source === 'config' && !wanted.has(name)) await schedules.remove(name, SETTER);
    for (const [name, written] of wanted) {
      const known = records.find((record) => record.name === name && record.source === 'config');
      // One that is unchanged keeps its place: setting it again would lose the ticks of the time without a brain.
      if (!known || !isSameSpec(known, scheduleSpec(written))) await schedules.set(name, written, SETTER);
    }
  }

  protected async onStop(): Promise<void> {}
}
