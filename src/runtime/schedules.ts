/** Sets and deletes schedules, and has their ticks decided. Which ticks are due is for adapters/schedules. */
import type { Tick, TickDecision } from '../core/admission/schedules.ts';
import type { Submission } from '../core/admission/submission.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { SubmitAnswer } from '../core/engine/jobs.ts';
import { OrchdError } from '../model/errors.ts';
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
import { isOvertaken, submittedOf } from './submit-answers.ts';

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
  async tick(record: ScheduleRecord, due: DueTick): Promise<void> {
    const { tenant, name, setAt } = record;
    const { at, missed, isMissed = false } = due;
    const caller = callerOf(record);
    const prepared = isMissed ? undefined : await this.#prepared(record, at, caller);
    const refusal = prepared instanceof OrchdError ? prepared : undefined;
    const submission = prepared instanceof OrchdError ? undefined : prepared;
    const tick = { tenant, name, at, setAt, missed, submission, refusal };
    const reply = await this.loop.ask({ type: 'schedule-tick', tick });
    const decision = reply as TickDecision<SubmitAnswer> | OrchdError;
    if (!(decision instanceof OrchdError)) {
      if (decision.submitted) this.#submissions.noteAnswer(submittedOf(decision.submitted), caller);
      return;
    }
    if (submission && isOvertaken(decision, submission)) return this.tick(record, due);
    throw decision;
  }

  /** The submission of a tick's job, or why it is refused for good. */
  async #prepared(record: ScheduleRecord, at: number, caller: Caller): Promise<Submission | OrchdError> {
    try {
      return await this.#submissions.ready(requestOf(record, at), caller);
    } catch (error) {
      if (error instanceof OrchdError && !error.retriable) return error;
      throw error;
    }
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

function requestOf({ name, request }: ScheduleRecord, at: number): SubmitRequest {
  const job = JSON.parse(request) as SubmitRequest;
  return { ...job, job_id: tickJobId(name, at), tags: { ...job.tags, schedule: name } };
}
