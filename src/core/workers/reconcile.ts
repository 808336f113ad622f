/**
 * Reconciles the reports of pool managers with the worker records (docs/decisions/0013).
 *
 * R1  A worker that its manager no longer reports is dead, and so is what ran on it: a manager reports every worker until
 *     its process is gone. This does not hold if the manager has another registry, that is, has lost its memory.
 * R2  A pool that does not answer has lost nothing: its workers get no new jobs, and keep the jobs that they run.
 */

import type { Cause } from '../../model/causes.ts';
import { type ErrorInfo, errorInfo } from '../../model/errors.ts';
import { adoptWorker, die, workerReady } from '../../model/moves.ts';
import type { WorkerRecord } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { endAttempt } from '../attempts/ending.ts';
import { putBackend } from '../attempts/foreign.ts';
import { forgotten, killed } from '../attempts/progress.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { PoolReport, ReportedWorker } from '../ports/pools.ts';
import { workerBackend, workerInfo } from '../ports/pools.ts';
import type { PoolEntry } from '../state/pools.ts';
import type { Turn } from '../turn.ts';
import { drain, stop } from './plan.ts';
import { Survey } from './room.ts';

export function poolReported(turn: Turn, report: PoolReport): void {
  const pool = turn.state.pools.update(report, turn.now);
  for (const worker of report.workers) noteWorker(turn, pool, worker);
  for (const [id, record] of turn.state.workers.inPool(report.id)) {
    if (!pool.workers.has(id)) noteMissing(turn, pool, id, record);
  }
}

/** `problem`: why its reports are refused, if it sends some. */
export function poolLost(turn: Turn, id: string, problem?: string): void {
  const pool = turn.state.pools.get(id);
  if (pool) pool.problem = problem;
  if (!pool?.up) return;
  pool.up = false;
  turn.state.pools.remeasure();
  turn.state.pools.changed = true;
  for (const worker of pool.workers.keys()) turn.fleet.setClosed(workerBackend(id, worker), true);
}

function noteWorker(turn: Turn, pool: PoolEntry, worker: ReportedWorker): void {
  const record = recordOf(turn, pool, worker);
  if (!record) return;
  const isReady = worker.status === 'ready' || worker.status === 'busy';
  if (isReady && record.state === 'starting') ready(turn, pool, worker, record);
  else if (isReady) learnSize(turn, record, worker.vramBytes, NOTABLE_GROWTH);
  if (worker.status === 'failed') failed(turn, worker, record);
  // A draining worker stays so in its record, even if it reports `ready` later: its operator expects no new jobs on it.
  if (worker.status === 'draining') drain(turn, { id: worker.id, record }, { is: 'drained-by-manager' });
  if (worker.registry !== '') addToFleet(turn, pool, worker);
  const isOpen = isReady && worker.unusable === undefined && isWanted(turn, worker.id);
  turn.fleet.setClosed(workerBackend(pool.report.id, worker.id), !isOpen);
}

/** The record of a reported worker. Undefined if another pool that answers has the worker: one report is of a copy. */
function recordOf(turn: Turn, pool: PoolEntry, worker: ReportedWorker): WorkerRecord | undefined {
  const { workers, pools } = turn.state;
  const known = workers.get(worker.id);
  if (known?.pool === pool.report.id) return known;
  if (known && pools.get(known.pool)?.up) return undefined;
  // The pool was renamed. Attempts that are open under its former name are inspected there.
  if (known) turn.put('worker', worker.id, null, { is: 'worker-moved', pool: pool.report.id });
  return adopt(turn, pool, worker);
}

const isWanted = (turn: Turn, id: string): boolean => {
  const state = turn.state.workers.get(id)?.state;
  return state === 'running' || state === 'starting';
};

/** Creates a record for a worker that this brain has not ordered, or whose record is gone: it is used like any other. */
function adopt(turn: Turn, pool: PoolEntry, worker: ReportedWorker): WorkerRecord {
  dropNamed(turn, pool, worker);
  const { device, modelRef, vramBytes, slots, contextLength } = worker;
  const { id, registry } = pool.report;
  const fields = { pool: id, device, modelRef, vramBytes, vramGuessed: undefined, slots, contextLength };
  const state = worker.status === 'starting' ? 'starting' : 'running';
  const record = adoptWorker(fields, turn.now, registry, state);
  turn.put('worker', worker.id, record, 'found');
  return record;
}

/** A manager may name its workers itself: then the ordered worker never appears, and the one that was found is it. */
function dropNamed(turn: Turn, pool: PoolEntry, { id, modelRef, device }: ReportedWorker): void {
  for (const [ordered, record] of turn.state.workers.inPool(pool.report.id)) {
    const isUnseen =
      record.state === 'starting' && record.registry === undefined && !pool.workers.has(ordered);
    if (!isUnseen || record.modelRef !== modelRef || record.device !== device) continue;
    turn.put('worker', ordered, null, { is: 'worker-named', id });
    return;
  }
}

function ready(turn: Turn, pool: PoolEntry, { id, vramBytes }: ReportedWorker, record: WorkerRecord): void {
  learnSize(turn, record, vramBytes);
  endReload(turn, record);
  turn.state.pools.failedStarts.delete(record.modelRef);
  turn.state.pools.startMs.set(record.modelRef, turn.now - record.at);
  turn.put('worker', id, workerReady(record, turn.now, pool.report.registry), 'ready');
}

/** Clears the pool's reload order once a worker with the new model is ready. */
function endReload(turn: Turn, { pool, modelRef }: WorkerRecord): void {
  const order = turn.state.tables.pool.get(pool);
  if (order?.reload === undefined || turn.state.catalog.find(order.reload)?.ref !== modelRef) return;
  turn.put('pool', pool, order.draining ? { ...order, reload: undefined } : null, 'reloaded');
}

/** A ready worker is measured again and again; a size that has grown by less than this factor is not written. */
const NOTABLE_GROWTH = 1.02;

/** Raises a guessed size that was too low: the next worker would be placed where it does not fit. */
function learnSize(turn: Turn, { modelRef }: WorkerRecord, vramBytes: number, growth = 1): void {
  const model = turn.state.catalog.find(modelRef);
  if (!model?.vramGuessed || vramBytes <= model.vramBytes * growth) return;
  turn.put('model', model.id, { ...model, vramBytes, updatedAt: turn.now }, 'measured');
}

/** Adds the worker to the fleet, or replaces its declaration. It stays there while attempts may be open on it. */
function addToFleet(turn: Turn, pool: PoolEntry, worker: ReportedWorker): void {
  const info = workerInfo(pool.report, worker);
  const known = turn.fleet.backends.get(info.name);
  if (!known || isChanged(known.info, info)) putBackend(turn, info);
}

const isChanged = (a: BackendInfo, b: BackendInfo): boolean =>
  a.slots !== b.slots ||
  a.paid !== b.paid ||
  a.registry !== b.registry ||
  a.contextLength !== b.contextLength ||
  JSON.stringify(a.labels) !== JSON.stringify(b.labels);

/** A worker reports `failed`: it is stopped, and a failed start may fail the jobs that wait for it. */
function failed(turn: Turn, { id, error }: ReportedWorker, record: WorkerRecord): void {
  const cause = error ?? errorInfo('WORKER_START_FAILED');
  if (record.state === 'starting') startFailed(turn, id, cause);
  else stop(turn, { id, record }, { is: 'failed', code: cause.code });
}

/** Handles a failed start: it is retried `startTries` times and in other pools, then the waiting jobs fail. */
export function startFailed(turn: Turn, id: string, error: ErrorInfo): void {
  const record = turn.state.workers.get(id);
  if (record?.state !== 'starting') return;
  stop(turn, { id, record }, { is: 'failed', code: error.code });
  const { startTries, startCooldownMs } = turn.settings.pools;
  const { pools } = turn.state;
  pools.changed = true;
  const before = pools.failedStarts.get(record.modelRef)?.where ?? NOWHERE;
  const where = new Set([...before, record.pool]);
  if (record.tries < startTries || (!before.has(record.pool) && canStartElsewhere(turn, record, where))) {
    pools.failedStarts.set(record.modelRef, { tries: record.tries, error, until: 0, where });
    return;
  }
  const until = turn.now + startCooldownMs;
  pools.failedStarts.set(record.modelRef, { tries: 0, error, until, where: NOWHERE });
  failWaiting(turn, record.modelRef, error);
}

const NOWHERE: ReadonlySet<string> = new Set();

/** Whether a pool without a failed start has a large enough device: the model's file may be there. */
const canStartElsewhere = (turn: Turn, { vramBytes }: WorkerRecord, where: ReadonlySet<string>): boolean =>
  new Survey(turn).for({ labels: undefined, vramBytes }).some(({ pool }) => !where.has(pool.report.id));

/** Fails all jobs that wait for this model and have no other backend. */
function failWaiting(turn: Turn, modelRef: string, error: ErrorInfo): void {
  for (const lane of [...turn.fleet.unserved]) {
    if (lane.need.modelRef !== modelRef) continue;
    if (lane.backends.some(({ up, closed }) => up && !closed)) continue;
    for (const queue of [lane.interactive, lane.batch]) {
      for (let entry = queue.head(); entry; entry = queue.head()) {
        turn.put('job', entry.uid, die(entry.job, turn.now, 'failed', error), 'worker-start-failed');
      }
    }
  }
}

/** Handles a worker that its manager does not report. */
function noteMissing(turn: Turn, pool: PoolEntry, id: string, record: WorkerRecord): void {
  // The start was ordered and has not begun yet.
  if (record.state === 'starting' && record.registry === undefined) return;
  const isCertain = record.registry === undefined || record.registry === pool.report.registry;
  const name = workerBackend(record.pool, id);
  // A stopping worker without open attempts need not be waited for.
  const isDone = record.state === 'stopping' && turn.fleet.usedSlots(name) === 0;
  if (!isCertain && !isDone) {
    turn.fleet.setClosed(name, true);
    return;
  }
  workerGone(turn, id, record);
}

const WORKER_DIED = errorInfo('UNKNOWN_OUTCOME', 'its worker has died');

/**
 * The worker's process is dead, and its record is deleted. What ran on it may have done its work before: `on_unknown` of
 * each job decides, before the worker leaves the fleet, which knows whether it is paid.
 */
export function workerGone(turn: Turn, id: string, record: WorkerRecord): void {
  const name = workerBackend(record.pool, id);
  for (const entry of [...turn.state.open.values()]) {
    if (entry.open?.backend !== name) continue;
    if (isTerminal(entry.job.state)) endAttempt(turn, entry, { ok: 'cancelled' });
    else if (entry.open.kill) killed(turn, entry, { is: 'forgotten', isGone: true });
    else forgotten(turn, entry, { error: WORKER_DIED, isGone: true });
  }
  turn.fleet.remove(name);
  const cause: Cause = record.state === 'stopping' ? { is: 'stopped', why: record.why } : 'died';
  turn.put('worker', id, null, cause);
  turn.state.pools.changed = true;
}
