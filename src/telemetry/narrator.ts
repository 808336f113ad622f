/**
 * Logs the moves of every job and worker: one line per move, with fields for machines and a sentence for people. It
 * observes durable changes, so every line states a fact.
 */

import type { LogFields, Logger } from '../kit/logger.ts';
import { type Cause, causeName, causeText, workerReasonText } from '../model/causes.ts';
import { errorInfo, type OrchdError } from '../model/errors.ts';
import type { GovernanceRecord } from '../model/governance.ts';
import type { SpentRecord } from '../model/limit-records.ts';
import { type Change, type JobRecord, jobOfToken, type WorkerRecord } from '../model/records.ts';
import { isTerminal, type JobState } from '../model/states.ts';
import type { ObservedJob, ObservedState, RefusedCaller } from '../runtime/observer.ts';
import { executionMs, schedulingMs } from './latency.ts';
import { WorkerBook, type WorkerMove, type WorkerWhat } from './worker-book.ts';

/** The sentence for each state a job moves to. The texts are constant: names and numbers go into fields. */
export const SENTENCES: Record<JobState, string> = {
  queued: 'The job waits in its lane.',
  claimed: 'A backend was chosen and the intent is durable.',
  running: 'The backend has accepted it and the stream begins.',
  waiting: 'The job has given up its attempt and waits for jobs below it, for an instant or for an answer.',
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

export const MONEY_SENTENCES = {
  share: 'A scope has used this share of its cost budget, in percent.',
  overrun: 'A provider has billed more than its bound: its seat is paused until an operator resumes it.',
  resumed: 'A paused seat gets jobs again.',
} as const;

const OVERRUN = { type: 'overrun' } as const;

const WORKER_WARNINGS: ReadonlySet<WorkerWhat> = new Set(['start_failed', 'failed', 'died']);

const ADMITTED = 'The job was admitted.';
const REFUSED = 'A submit was refused.';
const REFUSAL = { type: 'refusal' } as const;
const ADMISSION = { type: 'admission', to: 'queued' } as const;

/** The fields of one line, assigned one by one: a copy by spread costs as much as the line. Undefined ones are left out. */
type Fields = { -readonly [K in keyof LogFields]: LogFields[K] };

export class Narrator {
  readonly #logger: Logger;
  /** The last logged state of live jobs that are not queued; most jobs are queued and need no entry. */
  readonly #loggedStates = new Map<string, JobState>();
  readonly #workers = new WorkerBook();

  constructor(logger: Logger) {
    this.#logger = logger.child({ actor: 'brain' });
  }

  /** Takes over the states of recovered jobs, without logging them. */
  recovered(jobs: Iterable<ObservedJob>): void {
    for (const { uid, job } of jobs) this.#note(uid, job.state);
    this.#workers.forget();
  }

  changed(changes: readonly Change[], now: number, observed: ObservedState): void {
    this.#workers.read(observed);
    for (const { kind, id, after, cause } of changes) {
      if (kind === 'worker') this.#workerMoved(id, after, cause, now);
      if (kind === 'spent') this.#spent(id, after, cause);
      if (kind === 'governance' && after) this.#governed(after, cause);
      if (!after || (kind !== 'ask' && kind !== 'job')) continue;
      // An ended job stays in memory until the history has it, which is after this call.
      const entry = observed.job(id);
      if (!entry) continue;
      // The ask of a redriven job is written again if the job had left memory; its caller submitted nothing.
      if (kind === 'ask' && isRedrive(cause)) continue;
      if (kind === 'ask') this.#admitted(entry, observed);
      else this.#moved(entry, after, cause, now, observed);
    }
  }

  /** One line for each refused submit, so that a caller's correlation id leads to the reason. */
  refused(error: OrchdError, { correlationId, submittedBy, tenant }: RefusedCaller): void {
    this.#logger.info(REFUSED, {
      correlation_id: correlationId,
      caller: submittedBy,
      tenant,
      event: REFUSAL,
      // Not the message of this error: it may repeat what the caller has sent.
      reason: error.details.reason ?? errorInfo(error.code).message,
      error_code: error.code,
    });
  }

  #admitted(entry: ObservedJob, observed: ObservedState): void {
    if (!this.#logger.writes('info')) return;
    const fields = about(entry, 0);
    fields.event = ADMISSION;
    fields.queue_position = positionOf(entry, observed);
    this.#logger.info(ADMITTED, fields);
  }

  #moved(entry: ObservedJob, job: JobRecord, cause: Cause, now: number, observed: ObservedState): void {
    const from = this.#loggedStates.get(entry.uid) ?? (isRedrive(cause) ? 'dead' : 'queued');
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
    fields.error_reason = codeIn(job.error?.reason);
    this.#logger[level](SENTENCES[job.state], fields);
  }

  #note(uid: string, state: JobState): void {
    if (state === 'queued' || isTerminal(state)) this.#loggedStates.delete(uid);
    else this.#loggedStates.set(uid, state);
  }

  /** Adds where a job runs: the worker id, pool and device of a worker, else the name of the backend. */
  #place(fields: Fields, backend: string): void {
    const worker = this.#workers.of(backend);
    fields.backend = backend;
    fields.worker_id = worker?.id ?? backend;
    fields.pool_id = worker?.record.pool;
    fields.gpu_id = worker?.record.device;
  }

  #spent(scope: string, after: SpentRecord | null, cause: Cause): void {
    const { cost, paused } = after ?? {};
    if (typeof cause === 'object' && cause.is === 'budget-share') {
      const event = { type: 'budget_share', to: cause.percent };
      this.#logger.warn(MONEY_SENTENCES.share, { scope, cost, event });
    } else if (cause === 'overrun' && paused) {
      const fields = { scope, cost: paused.excess, job_id: jobOfToken(paused.token), event: OVERRUN };
      this.#logger.warn(MONEY_SENTENCES.overrun, fields);
    } else if (causeName(cause) === 'resume')
      this.#logger.info(MONEY_SENTENCES.resumed, { scope, reason: causeText(cause) });
  }

  /** A LOCKDOWN is an alert: somebody must look at it. */
  #governed({ mode, last }: GovernanceRecord, cause: Cause): void {
    if (typeof cause !== 'object') return;
    if (cause.is === 'mode') {
      const level =
        mode === 'NORMAL' || mode === 'RECOVERY' ? 'info' : mode === 'LOCKDOWN' ? 'critical' : 'warn';
      const event = { type: 'mode_changed', to: mode };
      this.#logger[level]('the mode of governance has changed', { event, reason: causeText(cause) });
    } else if (cause.is === 'violation') {
      const violation = last.at(-1);
      const event = { type: violation?.isShadow ? 'rule_would_be_broken' : 'rule_broken' };
      const fields = { event, job_id: cause.job, tenant: violation?.tenant, reason: cause.rule };
      this.#logger.warn('a rule of governance was broken', fields);
    }
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

/** The number of jobs ahead: 0 if the job was claimed in the same commit, undefined if it is parked. */
function positionOf({ uid, job }: ObservedJob, observed: ObservedState): number | undefined {
  return job.state === 'queued' ? observed.position(uid) : 0;
}

/** A reason is logged only if it has the form of a code: that of a worker may be any text. */
const codeIn = (reason: string | undefined): string | undefined =>
  reason !== undefined && /^[\w.-]{1,64}$/.test(reason) ? reason : undefined;

/** The fields of every line about a job. The correlation id is that of the request; an attempt appends its number. */
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
