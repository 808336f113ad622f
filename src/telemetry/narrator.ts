/**
 * Tells the story of every job in the log: one line per move, with the fields that let a machine follow it and
 * a sentence that lets a person. A subscriber of durable changes; what it says has happened.
 */
import type { JobEntry } from '../core/entry.ts';
import { jobPosition } from '../core/scheduling/predict.ts';
import type { State } from '../core/state.ts';
import type { LogFields, Logger } from '../kit/logger.ts';
import type { AskRecord, Change, JobRecord } from '../model/records.ts';
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

interface Known {
  readonly ask: AskRecord;
  readonly state: JobState;
}

export class Narrator {
  readonly #logger: Logger;
  /** Jobs whose story is not over. */
  readonly #known = new Map<string, Known>();

  constructor(logger: Logger) {
    this.#logger = logger.child({ actor: 'brain' });
  }

  /** Jobs that were there before this brain. */
  recovered(jobs: Iterable<JobEntry>): void {
    for (const { uid, ask, rec } of jobs)
      if (!isTerminal(rec.state)) this.#known.set(uid, { ask, state: rec.state });
  }

  changed(changes: readonly Change[], now: number, state: State): void {
    for (const change of changes) {
      if (change.kind === 'ask' && change.after) this.#admitted(change.id, change.after, state);
      if (change.kind === 'job' && change.after) this.#moved(change.id, change.after, change.cause, now);
    }
  }

  #admitted(uid: string, ask: AskRecord, state: State): void {
    this.#known.set(uid, { ask, state: 'queued' });
    const entry = state.jobs.get(uid);
    const position = entry && jobPosition(entry);
    this.#logger.info(ADMITTED, {
      ...about(uid, ask, 0),
      event: { type: 'admission', to: 'queued' },
      ...(position !== undefined && { queue_position: position }),
    });
  }

  #moved(uid: string, job: JobRecord, cause: string, now: number): void {
    const known = this.#known.get(uid);
    if (!known || known.state === job.state) return;
    const from = known.state;
    if (isTerminal(job.state) && job.state !== 'dead') this.#known.delete(uid);
    else this.#known.set(uid, { ask: known.ask, state: job.state });
    const fields: LogFields = {
      ...about(uid, known.ask, job.attempt),
      event: { type: 'state_transition', from, to: job.state },
      reason: cause,
      ...(job.backend !== undefined && { backend: job.backend, worker_id: job.backend }),
      ...(job.state === 'claimed' && {
        scheduling_latency_ms: now - (known.ask.notBefore ?? known.ask.createdAt),
      }),
      ...(job.endedAt !== undefined &&
        job.startedAt !== undefined && { execution_latency_ms: job.endedAt - job.startedAt }),
      ...(job.error && { error_code: job.error.code }),
    };
    this.#logger[job.state === 'dead' || job.state === 'stale' ? 'warn' : 'info'](
      SENTENCES[job.state],
      fields,
    );
  }
}

/** One correlation id per request; an attempt adds its number. */
function about(uid: string, ask: AskRecord, attempt: number): LogFields {
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
