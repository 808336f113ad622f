/**
 * Keeps worker pools at their wished sizes: orders workers that are missing, gives up those that are too many, and ends
 * pools that are drained or whose time is over.
 *
 * K1  A worker that a pool keeps is neither unloaded when it is idle nor evicted for another model.
 * K2  A pool takes over a worker of its model that nobody keeps before it orders one.
 * K3  A pool makes room only where that stops no busy worker, and no worker that another pool keeps.
 */
import { backendOfPool } from '../../model/consumer-record.ts';
import { isCpu } from '../../model/policy.ts';
import type { ModelRecord } from '../../model/records.ts';
import { isKept, type WorkerPoolRecord } from '../../model/worker-pool-record.ts';
import { workerBackend } from '../ports/pools.ts';
import type { BackendEntry } from '../queue/fleet.ts';
import type { Turn } from '../turn.ts';
import { ceilingText, type SizeView, startsLeft, wishedWorkers } from './ceiling.ts';
import { type EvictionRequest, planEviction, planReplacement } from './evict.ts';
import { mayOrderWorkers } from './may-order.ts';
import { drainOrStop } from './operator-commands.ts';
import { ANY_WORKER, evict, start } from './plan.ts';
import { type DeviceRoom, isLeaving, roomiest, Survey } from './room.ts';
import { drainWorkerPool, stayingWorkers, stopWorkers, withSpawned } from './worker-pools.ts';

/** Where something has changed that may bring or cost a pool a worker. */
export function keepWorkerPools(turn: Turn): void {
  const { pools, tables } = turn.state;
  if (!pools.changed || tables.worker_pool.size === 0 || pools.known.size === 0) return;
  const survey = new Survey(turn);
  for (const [id, record] of tables.worker_pool.entries())
    if (record.provisioner === 'managers') keep(turn, id, record, survey);
}

function keep(turn: Turn, id: string, record: WorkerPoolRecord, survey: Survey): void {
  const { workers } = turn.state;
  const excess = stayingWorkers(turn, id).length - wishedWorkers(turn, id, record);
  if (isKept(record) && excess > 0) giveUp(turn, id, excess);
  if (excess < 0 && mayOrderWorkers(turn)) fill(turn, id, record, -excess, survey);
  const here = workers.keptFor(id);
  const spawned = here.filter(([, { state }]) => state === 'running' || state === 'draining').length;
  const counted = withSpawned(turn, id, record, spawned);
  const isOver = record.status === 'draining' && here.length === 0;
  const after = isOver ? { ...counted, status: 'stopped' as const } : counted;
  note(turn, id, record, after);
}

function note(turn: Turn, id: string, before: WorkerPoolRecord, after: WorkerPoolRecord): void {
  if (after.spawned === before.spawned && after.status === before.status) return;
  turn.put('worker_pool', id, after, after.status === before.status ? 'measured' : 'changed');
}

/** Gives up workers that are too many: first those that are not ready, then idle ones, then the least busy. */
function giveUp(turn: Turn, id: string, count: number): void {
  const cost = (name: string, state: string): number =>
    state === 'starting' ? -1 : turn.fleet.usedSlots(name);
  const sorted = stayingWorkers(turn, id)
    .map(([worker, record]) => ({
      worker,
      record,
      cost: cost(workerBackend(record.pool, worker), record.state),
    }))
    .sort((a, b) => a.cost - b.cost);
  for (const { worker, record } of sorted.slice(0, count))
    drainOrStop(turn, worker, record, { is: 'worker-pool-over', pool: id });
}

/** The model of a pool, while workers with it may be started. */
function startable(turn: Turn, { serves }: WorkerPoolRecord): ModelRecord | undefined {
  const { catalog, pools } = turn.state;
  const model = serves === undefined ? undefined : catalog.get(serves);
  const failed = model && pools.failedStarts.get(model.ref);
  return model?.state === 'active' && !(failed && failed.until > turn.now) ? model : undefined;
}

function fill(turn: Turn, id: string, record: WorkerPoolRecord, missing: number, survey: Survey): void {
  const model = startable(turn, record);
  if (!model) return;
  let left = missing - takeOver(turn, id, model, missing);
  const { pools, gates } = turn.state;
  const failed = pools.failedStarts.get(model.ref);
  const rooms = survey.for({ labels: undefined, vramBytes: model.vramBytes });
  const open = gates.memory ? rooms.filter(({ pool }) => isCpu(pool.report.labels)) : rooms;
  const isAtCeiling = (): boolean => startsLeft(turn) <= 0;
  for (; left > 0 && !isAtCeiling(); left--) {
    const room = roomiest(open, model.vramBytes, turn.settings.pools.region, failed?.where);
    if (!room) break;
    start(turn, model, room, { is: 'worker-pool', pool: id }, (failed?.tries ?? 0) + 1, id);
  }
  if (left === 0) return;
  if (isAtCeiling()) replaceIdle(turn, id, model, survey);
  else if (!gates.memory) makeRoom(turn, id, model, rooms);
}

/** K2. */
function takeOver(turn: Turn, id: string, model: ModelRecord, missing: number): number {
  let taken = 0;
  for (const [worker, record] of turn.state.workers.of(model.ref)) {
    if (taken === missing) break;
    if (record.workerPool !== undefined || isLeaving(record) || !turn.state.pools.get(record.pool)?.up)
      continue;
    turn.put('worker', worker, { ...record, workerPool: id }, 'changed');
    taken++;
  }
  return taken;
}

/** K3. What is freed is used when the pool manager reports it. */
function makeRoom(turn: Turn, id: string, model: ModelRecord, rooms: readonly DeviceRoom[]): void {
  for (const room of rooms) {
    const eviction = planEviction(idleOnly(turn), room, model.vramBytes);
    if (eviction.is === 'coming') return;
    if (eviction.is !== 'evict') continue;
    evict(turn, eviction, `${model.id} (worker pool ${id})`);
    room.changed();
    return;
  }
}

/** K3, while as many workers run as may. */
function replaceIdle(turn: Turn, id: string, model: ModelRecord, survey: Survey): void {
  const everywhere = survey.for(ANY_WORKER);
  const eviction = planReplacement(idleOnly(turn), everywhere);
  if (eviction.is !== 'evict') return;
  evict(turn, eviction, `${model.id} (worker pool ${id})`);
  for (const room of everywhere) room.changed();
}

const idleOnly = ({ settings, now }: Turn): EvictionRequest => ({
  settings: settings.pools,
  now,
  mayDrain: false,
  wasJustEvicted: false,
});

/** At a tick: pools whose time is over drain, and drained pools end. */
export function tendWorkerPools(turn: Turn): void {
  for (const [id, record] of turn.state.tables.worker_pool.entries()) {
    if (isKept(record)) endHold(turn, id, record);
    else if (record.status === 'draining') endDrain(turn, id, record);
  }
}

function endHold(turn: Turn, id: string, record: WorkerPoolRecord): void {
  const { pools } = turn.state;
  const { poolsUsedAt, restingPools } = pools;
  const usedAt = isInUse(turn, id, record) ? turn.now : Math.max(poolsUsedAt.get(id) ?? turn.now, record.at);
  poolsUsedAt.set(id, usedAt);
  const isOver = record.holdMs > 0 && turn.now - usedAt >= record.holdMs;
  if (!isOver) restingPools.delete(id);
  else if (turn.settings.pools.minWarmWorkersPerPool > 0) restingPools.add(id);
  else drainWorkerPool(turn, id, undefined, 'hold');
}

/** Whether it runs jobs, or jobs wait for it, or it has no worker yet that could run them. */
function isInUse(turn: Turn, id: string, { provisioner }: WorkerPoolRecord): boolean {
  const backends = provisioner === 'external' ? [backendOfPool(id)] : backendsOf(turn, id);
  const known = backends.flatMap((name) => turn.fleet.backends.get(name) ?? []);
  return known.length === 0 || known.some(hasWork);
}

const hasWork = ({ used, lanes }: BackendEntry): boolean => used > 0 || lanes.some(({ size }) => size > 0);

const backendsOf = (turn: Turn, id: string): string[] =>
  turn.state.workers.keptFor(id).map(([worker, { pool }]) => workerBackend(pool, worker));

function endDrain(turn: Turn, id: string, record: WorkerPoolRecord): void {
  const isLate = record.drainBy !== undefined && turn.now >= record.drainBy;
  if (isLate) stopWorkers(turn, id);
  const here = turn.state.workers.keptFor(id);
  const isOver = record.provisioner === 'external' ? isLate || isEmpty(turn, id, record) : here.length === 0;
  if (isOver) turn.put('worker_pool', id, { ...record, status: 'stopped' }, 'changed');
}

/** No consumer of the pool is there any more, and the program that starts them says the same. */
const isEmpty = ({ state }: Turn, id: string, { spawned }: WorkerPoolRecord): boolean =>
  spawned === 0 && state.consumers.ofPool(id).every((consumer) => consumer.state === 'silent');

/** Why a pool has fewer workers than wished; undefined where it has enough, or nothing is known. */
export function problemOf(view: SizeView, id: string, record: WorkerPoolRecord): string | undefined {
  const { state } = view;
  if (record.status !== 'starting') return undefined;
  if (record.provisioner === 'external') {
    return record.heartbeatAt === undefined
      ? 'no program that starts its workers has reported yet'
      : undefined;
  }
  const model = record.serves === undefined ? undefined : state.catalog.get(record.serves);
  if (model?.state !== 'active') return `its model "${record.serves}" is not active`;
  const failed = state.pools.failedStarts.get(model.ref);
  if (failed) return `a worker has failed to start: ${failed.error.code}: ${failed.error.message}`;
  if (!state.pools.isAnyUp()) return 'no pool manager answers';
  if (state.gates.memory) return 'the gate of GPU memory is closed';
  const isStarting = state.workers.keptFor(id).some(([, worker]) => worker.state === 'starting');
  if (isStarting) return undefined;
  return startsLeft(view) <= 0 ? ceilingText(view) : 'no device has room for another worker';
}
