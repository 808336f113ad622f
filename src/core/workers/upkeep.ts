/** The periodic work on workers: starts that take too long, drains that are done, idle workers, reloads, forecasts. */

import { errorInfo } from '../../model/errors.ts';
import { isCpu } from '../../model/policy.ts';
import type { PoolRecord } from '../../model/pool-record.ts';
import type { WorkerRecord } from '../../model/records.ts';
import { workerBackend } from '../ports/pools.ts';
import { excessWorkers, startsLeft } from './ceiling.ts';
import { lastUse } from './evict.ts';
import { isExpected, lookAhead } from './forecast.ts';
import { tendWorkerPools } from './keep-pools.ts';
import { mayOrderWorkers } from './may-order.ts';
import { drain, start, stop } from './plan.ts';
import { startFailed } from './reconcile.ts';
import { type DeviceWorker, roomForWorker, Survey } from './room.ts';
import type { WorkerTurn } from './turn.ts';

/** A manager gives up on a start by itself; the brain waits a little longer before it does. */
const START_TIMEOUT_FACTOR = 1.25;

export function upkeep(turn: WorkerTurn): void {
  const { state } = turn;
  for (const [id, record] of [...state.workers.entries()]) {
    if (state.pools.get(record.pool)?.up) maintain(turn, deviceWorkerOf(turn, id, record));
    else if (record.state === 'starting') checkStartTimeout(turn, id, record);
  }
  for (const [id, order] of [...state.tables.pool.entries()]) if (order.reload) reload(turn, id, order);
  tendWorkerPools(turn);
  for (const worker of excessWorkers(turn)) stop(turn, worker, { is: 'too-many-workers' });
  lookAhead(turn);
  // Waiting jobs may have waited long enough by now for other workers to be drained.
  if (turn.fleet.unserved.size > 0 || state.tables.worker_pool.size > 0) state.pools.changed = true;
}

const deviceWorkerOf = (turn: WorkerTurn, id: string, record: WorkerRecord): DeviceWorker => ({
  id,
  record,
  backend: turn.fleet.backends.get(workerBackend(record.pool, id)),
  used: turn.fleet.usedSlots(workerBackend(record.pool, id)),
});

function maintain(turn: WorkerTurn, worker: DeviceWorker): void {
  const { id, record } = worker;
  const order = turn.state.tables.pool.get(record.pool);
  if (order?.draining && record.state !== 'stopping') return drainFor(turn, worker, order);
  switch (record.state) {
    case 'starting':
      return checkStartTimeout(turn, id, record);
    case 'draining':
      return stopWhenIdle(turn, worker);
    case 'running':
      return unloadIdle(turn, worker);
    case 'stopping':
      return;
  }
}

function checkStartTimeout(turn: WorkerTurn, id: string, record: WorkerRecord): void {
  if (turn.now - record.at < turn.settings.pools.startTimeoutMs * START_TIMEOUT_FACTOR) return;
  startFailed(turn, id, errorInfo('WORKER_START_TIMEOUT'));
}

/** Drains a worker of a drained pool; after `drainBy` it is stopped with whatever still runs on it. */
function drainFor(turn: WorkerTurn, worker: DeviceWorker, order: PoolRecord): void {
  const isLate = order.drainBy !== undefined && turn.now >= order.drainBy;
  if (isLate || worker.used === 0) return stop(turn, worker, { is: 'pool-drained', by: order.by });
  drain(turn, worker, { is: 'pool-drained', by: order.by });
}

function stopWhenIdle(turn: WorkerTurn, worker: DeviceWorker): void {
  if (worker.record.state === 'draining' && worker.used === 0) stop(turn, worker, worker.record.why);
}

function unloadIdle(turn: WorkerTurn, worker: DeviceWorker): void {
  const { eviction, idleUnloadMs } = turn.settings.pools;
  const { backend } = worker;
  if (eviction === 'manual' || !backend || worker.used > 0 || worker.record.workerPool !== undefined) return;
  if (turn.now - Math.max(lastUse(worker), worker.record.at) < idleUnloadMs) return;
  if (backend.lanes.some((lane) => lane.size > 0) || isExpected(turn, worker.record.modelRef)) return;
  stop(turn, worker, { is: 'idle' });
}

/** Starts the new model of a reloaded pool as soon as there is room. */
function reload(turn: WorkerTurn, id: string, order: PoolRecord): void {
  const { state } = turn;
  const model = order.reload === undefined ? undefined : state.catalog.find(order.reload);
  const here = model ? state.workers.of(model.ref).filter(([, { pool }]) => pool === id) : [];
  if (!model || here.some(([, { state }]) => state === 'running')) {
    turn.put('pool', id, order.draining ? { ...order, reload: undefined } : null, 'reloaded');
    return;
  }
  const failed = state.pools.failedStarts.get(model.ref);
  if (here.some(([, { state }]) => state === 'starting') || (failed && failed.until > turn.now)) return;
  if (state.gates.memory && !isCpu(state.pools.get(id)?.report.labels)) return;
  if (startsLeft(turn) <= 0 || !mayOrderWorkers(turn)) return;
  const rooms = new Survey(turn).for({ labels: { pool: id }, vramBytes: model.vramBytes });
  const room = roomForWorker(rooms, model.vramBytes, undefined);
  if (room) start(turn, model, room, { is: 'reload', by: order.by }, (failed?.tries ?? 0) + 1);
}
