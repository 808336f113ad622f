/**
 * A constructor for every legal move of a job, of an attempt and of a worker. Each returns the after-image; an illegal move
 * is a defect of ours and throws.
 */

import type { WorkerReason } from './causes.ts';
import type { ErrorInfo } from './errors.ts';
import type {
  AttemptRecord,
  Body,
  CancelRequest,
  DeadReason,
  JobRecord,
  KillOrder,
  WorkerRecord,
} from './records.ts';
import {
  type AttemptState,
  type JobState,
  mayMove,
  mayMoveAttempt,
  mayMoveWorker,
  type WorkerRecordState,
} from './states.ts';

/** Every job starts as this one shared image. */
export const FRESH_JOB: JobRecord = Object.freeze({
  v: 1,
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
  if (!mayMove(job.state, to)) throw new Error(`illegal job move ${job.state} -> ${to}`);
  return { ...job, ...fields, state: to };
}

export const claim = (job: JobRecord, attempt: number, backend: string): JobRecord =>
  move(job, 'claimed', { attempt, backend, notBefore: undefined, error: undefined });

export const start = (job: JobRecord, at: number): JobRecord =>
  move(job, 'running', { startedAt: job.startedAt ?? at });

export const succeed = (job: JobRecord, at: number, result: Body): JobRecord =>
  move(job, 'succeeded', { endedAt: at, result, error: undefined });

/** A try that ran, or may have run, and ended badly: it is spent. */
export const fail = (job: JobRecord, error: ErrorInfo): JobRecord =>
  move(job, 'failed', { error, tries: job.tries + 1, startedAt: undefined });

export const retry = (job: JobRecord, notBefore: number): JobRecord =>
  move(job, 'queued', { notBefore, backend: undefined });

/** Back to the queue because nothing ran: no try is spent. */
export const unclaim = (job: JobRecord): JobRecord =>
  move(job, 'queued', { backend: undefined, startedAt: undefined });

export const lose = (job: JobRecord): JobRecord => move(job, 'stale', {});

export const die = (job: JobRecord, at: number, reason: DeadReason, error: ErrorInfo): JobRecord =>
  move(job, 'dead', { endedAt: at, reason, error });

export const cancelled = (job: JobRecord, at: number, error: ErrorInfo): JobRecord =>
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
  });

/** Not a move: the wish to cancel is durable while the attempt still runs. */
export const askCancel = (job: JobRecord, cancel: CancelRequest): JobRecord => ({ ...job, cancel });

export function intend(
  job: string,
  n: number,
  backend: string,
  registry: string | undefined,
  epoch: number,
  at: number,
): AttemptRecord {
  return {
    v: 1,
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
  };
}

type AttemptFields = Partial<Omit<AttemptRecord, 'v' | 'state' | 'job' | 'n' | 'backend'>>;

function moveAttempt(attempt: AttemptRecord, to: AttemptState, fields: AttemptFields): AttemptRecord {
  if (!mayMoveAttempt(attempt.state, to)) throw new Error(`illegal attempt move ${attempt.state} -> ${to}`);
  return { ...attempt, ...fields, state: to };
}

export const accept = (attempt: AttemptRecord, at: number, epoch: number): AttemptRecord =>
  moveAttempt(attempt, 'accepted', { acceptedAt: attempt.acceptedAt ?? at, epoch });

export const end = (
  attempt: AttemptRecord,
  at: number,
  outcome: 'succeeded' | 'failed' | 'cancelled',
  error?: ErrorInfo,
): AttemptRecord => moveAttempt(attempt, 'ended', { endedAt: at, outcome, error });

export const loseAttempt = (attempt: AttemptRecord, epoch: number): AttemptRecord =>
  moveAttempt(attempt, 'unknown', { epoch });

export const abandon = (attempt: AttemptRecord, at: number): AttemptRecord =>
  moveAttempt(attempt, 'abandoned', { endedAt: at });

/** Not moves: an order to kill, and a confirmation by the present epoch. */
export const orderKill = (
  attempt: AttemptRecord,
  kill: KillOrder,
  epoch: number,
  error?: ErrorInfo,
): AttemptRecord => ({ ...attempt, kill, epoch, error });

export const confirm = (attempt: AttemptRecord, epoch: number): AttemptRecord => ({ ...attempt, epoch });

type WorkerFields = Pick<
  WorkerRecord,
  'pool' | 'device' | 'modelRef' | 'vramBytes' | 'vramGuessed' | 'slots' | 'contextLength'
>;

/** A worker that is to be started; `tries` is which start of its model it is, since one was ready. */
export const orderWorker = (
  fields: WorkerFields,
  at: number,
  why: WorkerReason,
  tries: number,
): WorkerRecord => ({ v: 2, ...fields, state: 'starting', registry: undefined, at, why, tries });

/** A worker that this brain has not ordered, or has forgotten, as its pool shows it. */
export const adoptWorker = (
  fields: WorkerFields,
  at: number,
  registry: string,
  state: 'starting' | 'running',
): WorkerRecord => ({ v: 2, ...fields, state, registry, at, why: { is: 'found' }, tries: 1 });

type WorkerMove = Partial<Pick<WorkerRecord, 'registry' | 'why'>>;

function moveWorker(
  worker: WorkerRecord,
  to: WorkerRecordState,
  at: number,
  fields: WorkerMove,
): WorkerRecord {
  if (!mayMoveWorker(worker.state, to)) throw new Error(`illegal worker move ${worker.state} -> ${to}`);
  return { ...worker, ...fields, state: to, at };
}

/** Its pool, with this memory, has shown it ready. */
export const workerReady = (worker: WorkerRecord, at: number, registry: string): WorkerRecord =>
  moveWorker(worker, 'running', at, { registry });

export const drainWorker = (worker: WorkerRecord, at: number, why: WorkerReason): WorkerRecord =>
  moveWorker(worker, 'draining', at, { why });

export const stopWorker = (worker: WorkerRecord, at: number, why: WorkerReason): WorkerRecord =>
  moveWorker(worker, 'stopping', at, { why });
