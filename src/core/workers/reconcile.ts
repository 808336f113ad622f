/**
 * What a pool manager says, brought together with the workers that there should be.
 *
 * R1  A worker that its manager no longer shows is dead, and so is what ran on it: that is certain, because a
 *     manager shows every worker until its process is gone. It is not where the manager has another memory.
 * R2  A pool that does not answer has lost nothing: its workers get nothing new, and what runs there stays theirs.
 */

import type { Cause } from '../../model/causes.ts';
import { type ErrorInfo, errorInfo } from '../../model/errors.ts';
import { adoptWorker, die, workerReady } from '../../model/moves.ts';
import type { WorkerRecord } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { endAttempt } from '../attempts/ending.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { PoolReport, ReportedWorker } from '../ports/pools.ts';
import { workerBackend, workerInfo } from '../ports/pools.ts';
import type { PoolEntry } from '../state/pools.ts';
import type { Turn } from '../turn.ts';
import { drain, stop } from './plan.ts';
import { Survey } from './room.ts';

export function poolReported(turn: Turn, report: PoolReport): void {
  const pool = turn.state.pools.heard(report, turn.now);
  for (const worker of report.workers) noteWorker(turn, pool, worker);
  for (const [id, record] of turn.state.workers.inPool(report.id)) {
    if (!pool.workers.has(id)) noteMissing(turn, pool, id, record);
  }
}

export function poolLost(turn: Turn, id: string): void {
  const pool = turn.state.pools.get(id);
  if (!pool?.up) return;
  pool.up = false;
  turn.state.pools.changed = true;
  for (const worker of pool.workers.keys()) turn.fleet.setClosed(workerBackend(id, worker), true);
}

function noteWorker(turn: Turn, pool: PoolEntry, worker: ReportedWorker): void {
  const record = recordOf(turn, pool, worker);
  if (!record) return;
  const isReady = worker.status === 'ready' || worker.status === 'busy';
  if (isReady && record.state === 'starting') ready(turn, pool, worker, record);
  if (worker.status === 'failed') failed(turn, worker, record);
  // It goes, whatever it says of itself later: what drained it once would not expect jobs on it again.
  if (worker.status === 'draining') drain(turn, { id: worker.id, record }, { is: 'drained-by-manager' });
  if (worker.registry !== '') show(turn, pool, worker);
  const isOpen = isReady && worker.unusable === undefined && isWanted(turn, worker.id);
  turn.fleet.setClosed(workerBackend(pool.report.id, worker.id), !isOpen);
}

/** Undefined where the worker is that of another pool: one of the two is a copy, and says nothing of the other. */
function recordOf(turn: Turn, pool: PoolEntry, worker: ReportedWorker): WorkerRecord | undefined {
  const { workers, pools } = turn.state;
  const known = workers.get(worker.id);
  if (known?.pool === pool.report.id) return known;
  if (known && pools.get(known.pool)?.up) return undefined;
  // Its pool has another name by now. What is open under the former one is asked about there.
  if (known) turn.put('worker', worker.id, null, { is: 'worker-moved', pool: pool.report.id });
  return adopt(turn, pool, worker);
}

const isWanted = (turn: Turn, id: string): boolean => {
  const state = turn.state.workers.get(id)?.state;
  return state === 'running' || state === 'starting';
};

/** One that this brain has not ordered, or has forgotten: it is used like any other. */
function adopt(turn: Turn, pool: PoolEntry, worker: ReportedWorker): WorkerRecord {
  const { device, modelRef, vramBytes, slots, contextLength } = worker;
  const { id, registry } = pool.report;
  const fields = { pool: id, device, modelRef, vramBytes, vramGuessed: undefined, slots, contextLength };
  const state = worker.status === 'starting' ? 'starting' : 'running';
  const record = adoptWorker(fields, turn.now, registry, state);
  turn.put('worker', worker.id, record, 'found');
  return record;
}

function ready(turn: Turn, pool: PoolEntry, { id, vramBytes }: ReportedWorker, record: WorkerRecord): void {
  learnSize(turn, record, vramBytes);
  endReload(turn, record);
  turn.state.pools.failedStarts.delete(record.modelRef);
  turn.state.pools.startMs.set(record.modelRef, turn.now - record.at);
  turn.put('worker', id, workerReady(record, turn.now, pool.report.registry), 'ready');
}

/** What its pool was reloaded for is there: whatever becomes of it now is another matter. */
function endReload(turn: Turn, { pool, modelRef }: WorkerRecord): void {
  const order = turn.state.tables.pool.get(pool);
  if (order?.reload === undefined || turn.state.catalog.find(order.reload)?.ref !== modelRef) return;
  turn.put('pool', pool, order.draining ? { ...order, reload: undefined } : null, 'reloaded');
}

/** A guess that was too low would send the next one where there is no room for it. */
function learnSize(turn: Turn, { modelRef }: WorkerRecord, vramBytes: number): void {
  const model = turn.state.catalog.find(modelRef);
  if (!model?.vramGuessed || vramBytes <= model.vramBytes) return;
  turn.put('model', model.id, { ...model, vramBytes, updatedAt: turn.now }, 'measured');
}

/** The fleet knows it as long as something may be open on it. */
function show(turn: Turn, pool: PoolEntry, worker: ReportedWorker): void {
  const { fleet } = turn;
  const info = workerInfo(pool.report, worker);
  const known = fleet.backends.get(info.name);
  if (!known || isOther(known.info, info)) fleet.put(info);
}

const isOther = (a: BackendInfo, b: BackendInfo): boolean =>
  a.slots !== b.slots ||
  a.registry !== b.registry ||
  a.contextLength !== b.contextLength ||
  JSON.stringify(a.labels) !== JSON.stringify(b.labels);

/** It failed, or could not be started: its manager is told to clear it away, and those who wait may be told too. */
function failed(turn: Turn, { id, error }: ReportedWorker, record: WorkerRecord): void {
  const cause = error ?? errorInfo('WORKER_START_FAILED');
  if (record.state === 'starting') startFailed(turn, id, cause);
  else stop(turn, { id, record }, { is: 'failed', code: cause.code });
}

/** A start has failed: tried again as often as is allowed, then those who wait for it hear of it. */
export function startFailed(turn: Turn, id: string, error: ErrorInfo): void {
  const record = turn.state.workers.get(id);
  if (record?.state !== 'starting') return;
  stop(turn, { id, record }, { is: 'failed', code: error.code });
  const { startTries, startCooldownMs } = turn.settings.pools;
  const { pools } = turn.state;
  pools.changed = true;
  const before = pools.failedStarts.get(record.modelRef)?.where ?? NOWHERE;
  const where = new Set([...before, record.pool]);
  if (record.tries < startTries || (!before.has(record.pool) && mayElsewhere(turn, record, where))) {
    pools.failedStarts.set(record.modelRef, { tries: record.tries, error, until: 0, where });
    return;
  }
  const until = turn.now + startCooldownMs;
  pools.failedStarts.set(record.modelRef, { tries: 0, error, until, where: NOWHERE });
  failWaiting(turn, record.modelRef, error);
}

const NOWHERE: ReadonlySet<string> = new Set();

/** Whether a pool that has not failed yet could hold it: the file may lie there. */
const mayElsewhere = (turn: Turn, { vramBytes }: WorkerRecord, where: ReadonlySet<string>): boolean =>
  new Survey(turn).for({ labels: undefined, vramBytes }).some(({ pool }) => !where.has(pool.report.id));

/** All who waited for this start; nobody else can serve them, or they would not wait. */
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

/** Its manager no longer shows it. */
function noteMissing(turn: Turn, pool: PoolEntry, id: string, record: WorkerRecord): void {
  // Ordered, and not begun yet.
  if (record.state === 'starting' && record.registry === undefined) return;
  const isCertain = record.registry === undefined || record.registry === pool.report.registry;
  const name = workerBackend(record.pool, id);
  // One that is to go and has nothing open need not be waited for: nobody can tell it so any more.
  const isDone = record.state === 'stopping' && turn.fleet.usedSlots(name) === 0;
  if (!isCertain && !isDone) {
    turn.fleet.setClosed(name, true);
    return;
  }
  gone(turn, id, record);
}

/** Its process is dead: what ran on it has ended, and whether it may run again is decided like any other failure. */
export function gone(turn: Turn, id: string, record: WorkerRecord): void {
  const name = workerBackend(record.pool, id);
  const error = { ...errorInfo('WORKER_UNAVAILABLE', 'its worker has died'), retriable: true };
  for (const entry of [...turn.state.open.values()]) {
    if (entry.open?.backend !== name) continue;
    if (isTerminal(entry.job.state)) endAttempt(turn, entry, { ok: 'cancelled' });
    else endAttempt(turn, entry, { ok: false, error });
  }
  turn.fleet.remove(name);
  const cause: Cause = record.state === 'stopping' ? { is: 'stopped', why: record.why } : 'died';
  turn.put('worker', id, null, cause);
  turn.state.pools.changed = true;
}
