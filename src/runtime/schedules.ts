/** Sets and deletes schedules, and has their ticks decided. Which ticks are due is for adapters/schedules. */
import type { Tick } from '../core/admission/schedules.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { ScheduleView, WrittenSchedule } from '../model/http/schedules.ts';
import { scoped } from '../model/records.ts';
import { type ScheduleRecord, tickJobId } from '../model/schedule.ts';
import type { SubmitRequest } from '../model/submit.ts';
import type { BrainClock } from './brain-clock.ts';
import { Commands } from './command-order.ts';
import type { Loop } from './loop.ts';
import type { Caller } from './prepare.ts';
import { scheduleSpec, scheduleView } from './schedule-view.ts';
import type { Submissions } from './submissions.ts';

/** Who sets a schedule. */
export interface ScheduleSetter {
  readonly tenant: string;
  readonly by: string;
  readonly source: ScheduleRecord['source'];
  readonly models?: readonly string[] | undefined;
}

export interface SchedulesParts {
  readonly loop: Loop;
  readonly engine: Engine;
  readonly clock: BrainClock;
  readonly submissions: Submissions;
}

/** A tick that is due; without `isMissed` its job is submitted. */
export type DueTick = Pick<Tick, 'at' | 'missed'> & { readonly isMissed?: boolean };

export class Schedules extends Commands {
  readonly #clock: BrainClock;
  readonly #submissions: Submissions;
  readonly #listeners = new Set<(id: string) => void>();

  constructor({ loop, engine, clock, submissions }: SchedulesParts) {
    super(loop, engine);
    this.#clock = clock;
    this.#submissions = submissions;
  }

  /** Called with the id of each schedule that was set or deleted, once that is durable. */
  subscribe(listener: (id: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async set(name: string, written: WrittenSchedule, setter: ScheduleSetter): Promise<ScheduleView> {
    const spec = scheduleSpec(written);
    this.#submissions.check(written.job as SubmitRequest, { ...callerOf(setter), mustBeRunnable: true });
    const { tenant, by, source, models } = setter;
    const record = await this.order({ type: 'schedule', order: { tenant, name, source, by, models, spec } });
    this.#tell(scoped(tenant, name));
    return scheduleView(record, this.#clock.now());
  }

  async remove(name: string, { tenant, by, source }: ScheduleSetter): Promise<void> {
    await this.order({ type: 'drop-schedule', order: { tenant, name, source, by } });
    this.#tell(scoped(tenant, name));
  }

  /** Decides one tick of a schedule. Throws where its job is refused for a reason that passes. */
  async tick(record: ScheduleRecord, { at, missed, isMissed = false }: DueTick): Promise<void> {
    const { tenant, name, setAt } = record;
    const tick = { tenant, name, at, setAt, missed };
    const request = isMissed ? undefined : { ...JSON.parse(record.request), ...tickFields(record, at) };
    await this.#submissions.tick(request, callerOf({ ...record }), tick);
  }

  #tell(id: string): void {
    for (const listener of this.#listeners) listener(id);
  }
}

/** A job that nothing can run yet waits: after a start backends may come later than the first tick. */
const callerOf = ({ tenant, by, models }: Pick<ScheduleSetter, 'tenant' | 'by' | 'models'>): Caller => ({
  tenant,
  principal: by,
  submittedBy: by,
  models,
});

function tickFields({ name, request }: ScheduleRecord, at: number): Partial<SubmitRequest> {
  const { tags } = JSON.parse(request) as { tags?: Record<string, string> };
  return { job_id: tickJobId(name, at), tags: { ...tags, schedule: name } };
}
