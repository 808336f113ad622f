/**
 * A constructor for every legal move of a job, of an attempt and of a worker. Each returns the after-image; an illegal
 * move is a defect and throws.
 */

import type { Body } from './body.ts';
import type { WorkerReason } from './causes.ts';
import type { AttemptHolder } from './consumer-record.ts';
import type { ErrorInfo } from './errors.ts';
import type {
  AttemptRecord,
  CancelRequest,
  DeadReason,
  JobRecord,
  KillOrder,
  PauseRequest,
  WorkerRecord,
} from './records.ts';
import type { RoutePlace } from './route.ts';
import {
  type AttemptState,
  type JobState,
  mayMoveAttempt,
  mayMoveJob,
  mayMoveWorker,
  type WorkerRecordState,
} from './states.ts';
import type { WaitRecord, WakeReason } from './waiting.ts';

/** The initial record of every job, shared by all. */
export const FRESH_JOB: JobRecord = Object.freeze({
  v: 2,
  state: 'queued',
  attempt: 0,
  tries: 0,
  notBefore: undefined,
  redrivenAt: undefined,
  cancel: undefined,
  backend: undefined,
  startedAt: undefined,
  endedAt: undefined,
  error: undefined,
  reason: undefined,
  result: undefined,
});

type JobFields = Partial<Omit<JobRecord, 'v' | 'state'>>;

function move(job: JobRecord, to: JobState, fields: JobFields): JobRecord {
  if (!mayMoveJob(job.state, to)) throw new Error(`illegal job move ${job.state} -> ${to}`);
  return { ...job, ...fields, state: to };
}

export const claim = (job: JobRecord, attempt: number, backend: string): JobRecord =>
  move(job, 'claimed', { attempt, backend, notBefore: undefined, error: undefined });

export const start = (job: JobRecord, at: number): JobRecord =>
  move(job, 'running', { startedAt: job.startedAt ?? at });

export const succeed = (job: JobRecord, at: number, result: Body): JobRecord =>
  move(job, 'succeeded', {
    endedAt: at,
    result,
    error: undefined,
    ...(job.wait && { wait: undefined }),
  });

/** The job gives up its attempt and waits. Its tries begin anew: they count for each part of the work. */
export const wait = (job: JobRecord, record: WaitRecord): JobRecord =>
  move(job, 'waiting', {
    tries: 0,
    backend: undefined,
    startedAt: undefined,
    error: undefined,
    wait: record,
  });

/** The job goes on. It could not have run before `at`: that is where its time in the queue begins. */
export const wake = (job: JobRecord, at: number, woken: WakeReason, answer?: string): JobRecord =>
  move(job, 'queued', {
    notBefore: at,
    wait: job.wait && { ...job.wait, woken, ...(answer !== undefined && { answer }) },
  });

/** A try that ran, or may have run, has failed: it counts towards `max_tries`. */
export const fail = (job: JobRecord, error: ErrorInfo): JobRecord =>
  move(job, 'failed', { error, tries: job.tries + 1, startedAt: undefined });

export const retry = (job: JobRecord, notBefore: number): JobRecord =>
  move(job, 'queued', { notBefore, backend: undefined });

/** Back to the queue without using up a try: nothing ran, or an operator decided so. */
export const unclaim = (job: JobRecord): JobRecord =>
  move(job, 'queued', { backend: undefined, startedAt: undefined });

/** The outcome of the attempt cannot be learned for now: its executor does not answer, or has forgotten it. */
export const lose = (job: JobRecord): JobRecord => move(job, 'stale', {});

export const die = (job: JobRecord, at: number, reason: DeadReason, error: ErrorInfo): JobRecord =>
  move(job, 'dead', { endedAt: at, reason, error });

export const cancel = (job: JobRecord, at: number, error: ErrorInfo): JobRecord =>
  move(job, 'cancelled', { endedAt: at, error });

export const redrive = (job: JobRecord, at: number): JobRecord =>
  move(job, 'queued', {
    redrivenAt: at,
    tries: 0,
    backend: undefined,
    startedAt: undefined,
    endedAt: undefined,
    reason: undefined,
    error: undefined,
    cancel: undefined,
    notBefore: undefined,
    ...(job.paused && { paused: undefined }),
  });

/** Not a move: a job that waits is for another model of its route from now on. */
export const reroute = (job: JobRecord, place: RoutePlace): JobRecord => ({ ...job, place });

/** Not a move: records the request to cancel while the attempt may still run. */
export const requestCancel = (job: JobRecord, cancel: CancelRequest): JobRecord => ({ ...job, cancel });

/** Not a move: from now on no attempt of the job, or of a job below it, starts. */
export const pauseJob = (job: JobRecord, paused: PauseRequest): JobRecord => ({ ...job, paused });

/** Not a move: attempts may start again. */
export const resumeJob = (job: JobRecord): JobRecord => ({ ...job, paused: undefined });

/**
 * Not a move: brain time was set back, and the instants that it has set move with it. `deadlineFrom` is the instant from
 * which the deadline counts; undefined without a deadline.
 */
export const shiftJob = (job: JobRecord, byMs: number, deadlineFrom: number | undefined): JobRecord => ({
  ...job,
  notBefore: shifted(job.notBefore, byMs),
  startedAt: shifted(job.startedAt, byMs),
  redrivenAt: shifted(deadlineFrom ?? job.redrivenAt, byMs),
  cancel: job.cancel && { ...job.cancel, at: job.cancel.at + byMs },
  ...(job.wait && { wait: { ...job.wait, until: shifted(job.wait.until, byMs) } }),
  ...(job.place && { place: { ...job.place, leaveAt: shifted(job.place.leaveAt, byMs) } }),
});

const shifted = (at: number | undefined, byMs: number): number | undefined =>
  at === undefined ? undefined : at + byMs;

type NewAttemptFields = Pick<
  AttemptRecord,
  'job' | 'n' | 'backend' | 'registry' | 'epoch' | 'at' | 'bill' | 'model' | 'maxTokens' | 'isPulled'
>;

/** The record of an attempt that is about to be offered to a backend; it is durable before the offer is sent. */
export function newAttempt(fields: NewAttemptFields): AttemptRecord {
  const { job, n, backend, registry, epoch, at, bill, model, maxTokens, isPulled } = fields;
  const attempt: AttemptRecord = {
    v: 3,
    job,
    n,
    backend,
    registry,
    state: 'intended',
    epoch,
    at,
    acceptedAt: undefined,
    endedAt: undefined,
    outcome: undefined,
    error: undefined,
    kill: undefined,
    bill,
  };
  if (model === undefined && maxTokens === undefined && !isPulled) return attempt;
  return {
    ...attempt,
    ...(model !== undefined && { model }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(isPulled && { isPulled }),
  };
}

type AttemptFields = Partial<Omit<AttemptRecord, 'v' | 'state' | 'job' | 'n' | 'backend'>>;

function moveAttempt(attempt: AttemptRecord, to: AttemptState, fields: AttemptFields): AttemptRecord {
  if (!mayMoveAttempt(attempt.state, to)) throw new Error(`illegal attempt move ${attempt.state} -> ${to}`);
  return { ...attempt, ...fields, state: to };
}

export const accept = (attempt: AttemptRecord, at: number, epoch: number): AttemptRecord =>
  moveAttempt(attempt, 'accepted', {
    acceptedAt: attempt.acceptedAt ?? at,
    epoch,
    // It was not gone after all.
    ...(attempt.isGone && { isGone: undefined }),
  });

/** A consumer has claimed the attempt, or says that it still works on one that was taken for lost. */
export const hold = (
  attempt: AttemptRecord,
  holder: AttemptHolder,
  at: number,
  epoch: number,
): AttemptRecord => ({ ...accept(attempt, at, epoch), holder });

type AttemptEnd = Pick<AttemptRecord, 'error' | 'usage' | 'bill' | 'label'>;

export const end = (
  attempt: AttemptRecord,
  at: number,
  outcome: NonNullable<AttemptRecord['outcome']>,
  { error, usage, bill = attempt.bill, label }: Partial<AttemptEnd> = {},
): AttemptRecord => {
  const ended = moveAttempt(
    attempt,
    'ended',
    usage ? { endedAt: at, outcome, error, bill, usage } : { endedAt: at, outcome, error, bill },
  );
  return label === undefined ? ended : { ...ended, label };
};

/** The executor does not answer, or has forgotten the attempt: it may run, may have run, or may never have started. */
export const loseAttempt = (attempt: AttemptRecord, epoch: number): AttemptRecord =>
  moveAttempt(attempt, 'unknown', { epoch });

export const abandon = (
  attempt: AttemptRecord,
  at: number,
  { error, bill }: Partial<Pick<AttemptRecord, 'error' | 'bill'>> = {},
): AttemptRecord =>
  moveAttempt(attempt, 'abandoned', { endedAt: at, ...(error && { error }), ...(bill && { bill }) });

/** Not a move: records the order to kill the attempt. */
export const orderKill = (
  attempt: AttemptRecord,
  kill: KillOrder,
  epoch: number,
  error?: ErrorInfo,
): AttemptRecord => ({ ...attempt, kill, epoch, error });

/**
 * Not a move: brain time was set back, and the attempt with it. `at` stays: it is compared with the time since which the
 * executor remembers, which does not move.
 */
export const shiftAttempt = (attempt: AttemptRecord, byMs: number): AttemptRecord => ({
  ...attempt,
  acceptedAt: shifted(attempt.acceptedAt, byMs),
  kill: attempt.kill && { ...attempt.kill, at: attempt.kill.at + byMs },
});

/** Not a move: the executor has confirmed the attempt in this epoch. */
export const confirm = (attempt: AttemptRecord, epoch: number): AttemptRecord => ({ ...attempt, epoch });

type WorkerFields = Pick<
  WorkerRecord,
  'pool' | 'device' | 'modelRef' | 'vramBytes' | 'vramGuessed' | 'slots' | 'contextLength'
>;

/** A new worker to be started; see WorkerRecord.tries for `tries`. */
export const orderWorker = (
  fields: WorkerFields,
  at: number,
  why: WorkerReason,
  tries: number,
): WorkerRecord => ({ v: 2, ...fields, state: 'starting', registry: undefined, at, why, tries });

/** A worker that its pool reports and that has no record: not ordered by this brain, or its record is gone. */
export const adoptWorker = (
  fields: WorkerFields,
  at: number,
  registry: string,
  state: 'starting' | 'running',
): WorkerRecord => ({ v: 2, ...fields, state, registry, at, why: { is: 'found' }, tries: 1 });

type WorkerMoveFields = Partial<Pick<WorkerRecord, 'registry' | 'why'>>;

function moveWorker(
  worker: WorkerRecord,
  to: WorkerRecordState,
  at: number,
  fields: WorkerMoveFields,
): WorkerRecord {
  if (!mayMoveWorker(worker.state, to)) throw new Error(`illegal worker move ${worker.state} -> ${to}`);
  return { ...worker, ...fields, state: to, at };
}

/** The pool, with this registry, has reported the worker as ready. */
export const workerReady = (worker: WorkerRecord, at: number, registry: string): WorkerRecord =>
  moveWorker(worker, 'running', at, { registry });

export const drainWorker = (worker: WorkerRecord, at: number, why: WorkerReason): WorkerRecord =>
  moveWorker(worker, 'draining', at, { why });

export const stopWorker = (worker: WorkerRecord, at: number, why: WorkerReason): WorkerRecord =>
  moveWorker(worker, 'stopping', at, { why });
