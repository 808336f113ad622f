/**
 * Tells the story of every job and every worker in the log: one line per move, with the fields that let a machine
 * follow it and a sentence that lets a person. A subscriber of durable changes; what it says has happened.
 */

import type { LogFields, Logger } from '../kit/logger.ts';
import { type Cause, causeName, causeText, workerReasonText } from '../model/causes.ts';
import type { Change, JobRecord, WorkerRecord } from '../model/records.ts';
import { isTerminal, type JobState } from '../model/states.ts';
import type { ObservedJob, ObservedState } from '../runtime/observer.ts';
import { executionMs, schedulingMs } from './latency.ts';
import { WorkerBook, type WorkerMove, type WorkerWhat } from './worker-book.ts';

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

export const WORKER_SENTENCES: Record<WorkerWhat, string> = {
  ordered: 'A worker is started: it was ordered, and loads its model.',
  found: 'A worker was found that was not ordered here; it is used like any other.',
  ready: 'The worker is ready and takes jobs.',
  start_failed: 'The worker failed to start and is cleared away.',
  failed: 'The worker has failed and is cleared away.',
  draining: 'The worker is drained: it takes nothing new and finishes what it has.',
  evicted: 'The worker is evicted: it was ordered to go.',
  gone: 'The worker is gone and its memory is free.',
  died: 'The worker has died, and what ran on it has ended.',
};

const WORKER_WARNINGS: ReadonlySet<WorkerWhat> = new Set(['start_failed', 'failed', 'died']);

const ADMITTED = 'The job was admitted.';
const ADMISSION = { type: 'admission', to: 'queued' } as const;

/** Filled in one by one: copies by spread cost as much as the line. What is undefined is not written. */
type Fields = { -readonly [K in keyof LogFields]: LogFields[K] };

export class Narrator {
  readonly #logger: Logger;
  /** Where live jobs that do not wait stood when they were last told of: most wait, and need no entry. */
  readonly #told = new Map<string, JobState>();
  readonly #workers = new WorkerBook();

  constructor(logger: Logger) {
    this.#logger = logger.child({ actor: 'brain' });
  }

  /** Jobs that were there before this brain. */
  recovered(jobs: Iterable<ObservedJob>): void {
    for (const { uid, job } of jobs) this.#note(uid, job.state);
    this.#workers.forget();
  }

  changed(changes: readonly Change[], now: number, observed: ObservedState): void {
    this.#workers.read(observed);
    for (const { kind, id, after, cause } of changes) {
      if (kind === 'worker') this.#workerMoved(id, after, cause, now);
      if (!after || (kind !== 'ask' && kind !== 'job')) continue;
      // An ended job is in memory until the history has it, which is after it was told of here.
      const entry = observed.job(id);
      if (!entry) continue;
      // A redriven job that had left memory is asked for again, but not by its caller.
      if (kind === 'ask' && isRedrive(cause)) continue;
      if (kind === 'ask') this.#admitted(entry, observed);
      else this.#moved(entry, after, cause, now, observed);
    }
  }

  #admitted(entry: ObservedJob, observed: ObservedState): void {
    if (!this.#logger.writes('info')) return;
    const fields = about(entry, 0);
    fields.event = ADMISSION;
    fields.queue_position = positionOf(entry, observed);
    this.#logger.info(ADMITTED, fields);
  }

  #moved(entry: ObservedJob, job: JobRecord, cause: Cause, now: number, observed: ObservedState): void {
    const from = this.#told.get(entry.uid) ?? (isRedrive(cause) ? 'dead' : 'queued');
    if (from === job.state) return;
    this.#note(entry.uid, job.state);
    const level = job.state === 'dead' || job.state === 'stale' ? 'warn' : 'info';
    if (!this.#logger.writes(level)) return;
    const fields = about(entry, job.attempt);
    fields.event = { type: 'state_transition', from, to: job.state };
    fields.reason = causeText(cause);
    if (job.backend !== undefined) this.#place(fields, job.backend);
    if (job.state === 'queued') fields.queue_position = positionOf(entry, observed);
    if (job.state === 'claimed') fields.scheduling_latency_ms = schedulingMs(entry, job, now);
    fields.execution_latency_ms = executionMs(entry, job);
    fields.error_code = job.error?.code;
    this.#logger[level](SENTENCES[job.state], fields);
  }

  #note(uid: string, state: JobState): void {
    if (state === 'queued' || isTerminal(state)) this.#told.delete(uid);
    else this.#told.set(uid, state);
  }

  /** Where a job is: a worker by its own id, with its pool and device; anything else by its name. */
  #place(fields: Fields, backend: string): void {
    const worker = this.#workers.of(backend);
    fields.backend = backend;
    fields.worker_id = worker?.id ?? backend;
    fields.pool_id = worker?.record.pool;
    fields.gpu_id = worker?.record.device;
  }

  #workerMoved(id: string, after: WorkerRecord | null, cause: Cause, now: number): void {
    const move = this.#workers.moved(id, after, cause);
    if (!move) return;
    const { what, record, before, to, errorCode } = move;
    this.#logger[WORKER_WARNINGS.has(what) ? 'warn' : 'info'](WORKER_SENTENCES[what], {
      worker_id: id,
      pool_id: record.pool,
      gpu_id: record.device,
      model_ref: record.modelRef,
      event: { type: `worker_${what}`, from: before?.state, to },
      reason: what === 'died' ? causeText(cause) : workerReasonText(record.why),
      duration_ms: what === 'ready' ? startedFor(move, now) : undefined,
      error_code: errorCode,
    });
  }
}

const isRedrive = (cause: Cause): boolean => causeName(cause) === 'redrive';

const startedFor = ({ before }: WorkerMove, now: number): number | undefined =>
  before?.state === 'starting' ? now - before.at : undefined;

/** The jobs ahead; none of one that was taken before this could be said, nothing of one that is parked. */
function positionOf({ uid, job }: ObservedJob, observed: ObservedState): number | undefined {
  return job.state === 'queued' ? observed.position(uid) : 0;
}

/** One correlation id per request; an attempt adds its number. */
function about({ uid, ask }: ObservedJob, attempt: number): Fields {
  const { correlationId } = ask;
  return {
    job_id: uid,
    correlation_id:
      correlationId === undefined || attempt === 0 ? correlationId : `${correlationId}.${attempt}`,
    session_id: ask.spec.session_id,
    model_ref: ask.modelRef ?? ask.spec.model,
  };
}
