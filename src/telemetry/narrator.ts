/**
 * Tells the story of every job in the log: one line per move, with the fields that let a machine follow it and
 * a sentence that lets a person. A subscriber of durable changes; what it says has happened.
 */
import type { JobEntry } from '../core/entry.ts';
import { jobPosition } from '../core/scheduling/predict.ts';
import type { State } from '../core/state.ts';
import type { LogFields, Logger } from '../kit/logger.ts';
import type { Change, JobRecord } from '../model/records.ts';
import { isTerminal, type JobState } from '../model/states.ts';

/** What is said at each move. Constant texts: names and numbers go into fields, never into the sentence. */
export const SENTENCES: Record<JobState, string> = {
  queued: 'The job waits in its lane.',
  claimed: 'A backend was chosen and the intent is durable.',
  running: 'The backend has accepted it and the stream begins.',
  stale: 'The backend cannot say what became of it.',
  failed: 'A try ended badly.',
  dead: 'The job is dead and the stream ends; an operator may redrive it.',
  succeeded: 'The job is done and the stream ends.',
  cancelled: 'The job was cancelled and the stream ends.',
};

const ADMITTED = 'The job was admitted.';

export class Narrator {
  readonly #logger: Logger;
  /** Where the jobs whose story is not over stood when they were last told of. */
  readonly #told = new Map<string, JobState>();

  constructor(logger: Logger) {
    this.#logger = logger.child({ actor: 'brain' });
  }

  /** Jobs that were there before this brain. */
  recovered(jobs: Iterable<JobEntry>): void {
    for (const { uid, rec } of jobs) if (!isTerminal(rec.state)) this.#told.set(uid, rec.state);
  }

  changed(changes: readonly Change[], now: number, state: State): void {
    for (const { kind, id, after, cause } of changes) {
      if (!after || (kind !== 'ask' && kind !== 'job')) continue;
      // An ended job is in memory until the history has it, which is after it was told of here.
      const entry = state.jobs.get(id);
      if (!entry) continue;
      if (kind === 'ask') this.#admitted(entry);
      else this.#moved(entry, after, cause, now);
    }
  }

  #admitted(entry: JobEntry): void {
    this.#told.set(entry.uid, 'queued');
    if (!this.#logger.writes('info')) return;
    const position = jobPosition(entry);
    this.#logger.info(ADMITTED, {
      ...about(entry, 0),
      event: { type: 'admission', to: 'queued' },
      ...(position !== undefined && { queue_position: position }),
    });
  }

  #moved(entry: JobEntry, job: JobRecord, cause: string, now: number): void {
    // One that is redriven had been told dead.
    const from = this.#told.get(entry.uid) ?? 'dead';
    if (from === job.state) return;
    if (isTerminal(job.state)) this.#told.delete(entry.uid);
    else this.#told.set(entry.uid, job.state);
    const level = job.state === 'dead' || job.state === 'stale' ? 'warn' : 'info';
    if (!this.#logger.writes(level)) return;
    const { ask } = entry;
    this.#logger[level](SENTENCES[job.state], {
      ...about(entry, job.attempt),
      event: { type: 'state_transition', from, to: job.state },
      reason: cause,
      ...(job.backend !== undefined && { backend: job.backend, worker_id: job.backend }),
      ...(job.state === 'claimed' && { scheduling_latency_ms: now - (ask.notBefore ?? ask.createdAt) }),
      ...(job.endedAt !== undefined &&
        job.startedAt !== undefined && { execution_latency_ms: job.endedAt - job.startedAt }),
      ...(job.error && { error_code: job.error.code }),
    });
  }
}

/** One correlation id per request; an attempt adds its number. */
function about({ uid, ask }: JobEntry, attempt: number): LogFields {
  const { correlationId, session, model } = ask;
  return {
    job_id: uid,
    ...(correlationId !== undefined && {
      correlation_id: attempt === 0 ? correlationId : `${correlationId}.${attempt}`,
    }),
    ...(session !== undefined && { session_id: session }),
    ...(model !== undefined && { model_ref: model }),
  };
}
