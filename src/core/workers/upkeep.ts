/** What time alone brings about among workers: starts that take too long, drains that are over, idleness. */

import { errorInfo } from '../../model/errors.ts';
import type { PoolRecord, WorkerRecord } from '../../model/records.ts';
import { workerBackend } from '../ports/pools.ts';
import { lastUse } from './evict.ts';
import { isExpected, lookAhead } from './forecast.ts';
import { drain, start, stop } from './plan.ts';
import { startFailed } from './reconcile.ts';
import { type Resident, roomiest, Survey } from './room.ts';
import type { WorkerTurn } from './turn.ts';

/** A manager gives up on a start by itself; one that is silent is given a little more. */
const START_TIMEOUT_FACTOR = 1.25;

export function upkeep(turn: WorkerTurn): void {
  const { state } = turn;
  for (const [id, record] of [...state.workers.entries()]) {
    if (state.pools.get(record.pool)?.up) tend(turn, residentOf(turn, id, record));
    else if (record.state === 'starting') giveUpLate(turn, id, record);
  }
  for (const [id, order] of [...state.tables.pool.entries()]) if (order.reload) reload(turn, id, order);
  lookAhead(turn);
  // Those who wait may by now have waited long enough for others to make room.
  if (turn.fleet.unserved.size > 0) state.pools.changed = true;
}

const residentOf = (turn: WorkerTurn, id: string, record: WorkerRecord): Resident => ({
  id,
  record,
  backend: turn.fleet.backends.get(workerBackend(record.pool, id)),
  used: turn.fleet.usedSlots(workerBackend(record.pool, id)),
});

function tend(turn: WorkerTurn, victim: Resident): void {
  const { id, record } = victim;
  const order = turn.state.tables.pool.get(record.pool);
  if (order?.draining && record.state !== 'stopping') return drainFor(turn, victim, order);
  switch (record.state) {
    case 'starting':
      return giveUpLate(turn, id, record);
    case 'draining':
      return stopWhenIdle(turn, victim);
    case 'running':
      return unloadIdle(turn, victim);
    case 'stopping':
      return;
  }
}

function giveUpLate(turn: WorkerTurn, id: string, record: WorkerRecord): void {
  if (turn.now - record.at < turn.settings.pools.startTimeoutMs * START_TIMEOUT_FACTOR) return;
  startFailed(turn, id, errorInfo('WORKER_START_TIMEOUT'));
}

/** Past its time what still runs is ended with its worker. */
function drainFor(turn: WorkerTurn, victim: Resident, order: PoolRecord): void {
  const isLate = order.drainBy !== undefined && turn.now >= order.drainBy;
  if (isLate || victim.used === 0) return stop(turn, victim, { is: 'pool-drained', by: order.by });
  drain(turn, victim, { is: 'pool-drained', by: order.by });
}

function stopWhenIdle(turn: WorkerTurn, victim: Resident): void {
  if (victim.record.state === 'draining' && victim.used === 0) stop(turn, victim, victim.record.why);
}

function unloadIdle(turn: WorkerTurn, victim: Resident): void {
  const { eviction, idleUnloadMs } = turn.settings.pools;
  const { backend } = victim;
  if (eviction === 'manual' || !backend || victim.used > 0) return;
  if (turn.now - Math.max(lastUse(victim), victim.record.at) < idleUnloadMs) return;
  if (backend.lanes.some((lane) => lane.size > 0) || isExpected(turn, victim.record.modelRef)) return;
  stop(turn, victim, { is: 'idle' });
}

/** A pool that was reloaded gets its new model as soon as there is room. */
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
  const places = new Survey(turn).for({ labels: { pool: id }, vramBytes: model.vramBytes });
  const place = roomiest(places, model.vramBytes, undefined);
  if (place) start(turn, model, place, { is: 'reload', by: order.by }, 1);
}
