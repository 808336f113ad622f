/**
 * Keeps worker pools at their wished sizes: orders workers that are missing, gives up those that are too many, and ends
 * pools that are drained or whose time is over.
 *
 * K1  A worker that a pool keeps is neither unloaded when it is idle nor evicted for another model.
 * K2  A pool is stopped only after its workers have given back what they held: jobs first, then devices.
 * K3  Workers of a pool manager that has been silent for long are replaced, and what runs on them is left alone: where the
 *     manager answers again, there are too many.
 */
import { backendOfPool, type ConsumerRecord, consumerId } from '../../model/consumer-record.ts';
import type { WorkerRecord } from '../../model/records.ts';
import { isKept, type WorkerPoolRecord } from '../../model/worker-pool-record.ts';
import { workerBackend } from '../ports/pools.ts';
import type { BackendEntry } from '../queue/fleet.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { ceilingText, type SizeView, startsLeft, wishedWorkers } from './ceiling.ts';
import { type NamedWorker, PoolFiller } from './fill-pools.ts';
import { mayOrderWorkers } from './may-order.ts';
import { drainOrStop } from './operator-commands.ts';
import { drainWorkerPool, stayingWorkers, stopWorkers, withSpawned } from './worker-pools.ts';

/** Workers of a pool manager that has not answered for so long are replaced in other pools. */
const LOST_AFTER_MS = 60_000;

/** Where something has changed that may bring or cost a pool a worker. */
export function keepWorkerPools(turn: Turn): void {
  const { pools, tables } = turn.state;
  if (!pools.changed || tables.worker_pool.size === 0 || pools.known.size === 0) return;
  const filler = new PoolFiller(turn);
  for (const [id, record] of tables.worker_pool.entries())
    if (record.provisioner === 'managers') keep(turn, id, record, filler);
}

function keep(turn: Turn, id: string, record: WorkerPoolRecord, filler: PoolFiller): void {
  const { workers } = turn.state;
  const present = presentWorkers(turn, id);
  const excess = present.length - wishedWorkers(turn, id, record);
  if (isKept(record) && excess > 0) giveUp(turn, id, present, excess);
  if (excess < 0 && mayOrderWorkers(turn)) filler.fill(id, record, -excess);
  const isCounted = ([, each]: NamedWorker): boolean =>
    (each.state === 'running' || each.state === 'draining') && !isLost(turn, each);
  const after = withSpawned(turn, id, record, workers.keptFor(id).filter(isCounted).length);
  note(turn, id, record, after);
  if (after.status === 'draining') endDrain(turn, id, after);
}

/** K3. */
const presentWorkers = (turn: Turn, id: string): readonly NamedWorker[] =>
  stayingWorkers(turn, id).filter(([, record]) => !isLost(turn, record));

function isLost({ state, now }: Turn, { pool }: WorkerRecord): boolean {
  const since = state.pools.silentSince(pool);
  return since !== undefined && now - since >= LOST_AFTER_MS;
}

function note(turn: Turn, id: string, before: WorkerPoolRecord, after: WorkerPoolRecord): void {
  if (after.spawned === before.spawned && after.status === before.status) return;
  turn.put('worker_pool', id, after, after.status === before.status ? 'measured' : 'changed');
}

/** Gives up workers that are too many: first those that are not ready, then idle ones, then the least busy. */
function giveUp(turn: Turn, id: string, present: readonly NamedWorker[], count: number): void {
  const cost = (name: string, state: string): number =>
    state === 'starting' ? -1 : turn.fleet.usedSlots(name);
  const sorted = present
    .map(([worker, record]) => ({
      worker,
      record,
      cost: cost(workerBackend(record.pool, worker), record.state),
    }))
    .sort((a, b) => a.cost - b.cost);
  for (const { worker, record } of sorted.slice(0, count))
    drainOrStop(turn, worker, record, { is: 'worker-pool-over', pool: id });
}

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

/** K2. */
function endDrain(turn: Turn, id: string, record: WorkerPoolRecord): void {
  const isLate = record.drainBy !== undefined && turn.now >= record.drainBy;
  if (isLate) stopWorkers(turn, id);
  if (!isEmpty(turn, id, record, isLate)) {
    if (isLate && !record.graceOver) turn.put('worker_pool', id, { ...record, graceOver: true }, 'changed');
    return;
  }
  if (record.provisioner === 'external') for (const entry of heldIn(turn, id)) turn.endLeaseOf(entry.token);
  turn.put('worker_pool', id, stopped(record), 'changed');
}

const stopped = ({ graceOver: _, ...record }: WorkerPoolRecord): WorkerPoolRecord => ({
  ...record,
  status: 'stopped',
});

function isEmpty(
  turn: Turn,
  id: string,
  { provisioner, spawned }: WorkerPoolRecord,
  isLate: boolean,
): boolean {
  if (provisioner === 'managers') return turn.state.workers.keptFor(id).length === 0;
  const present = turn.state.consumers.ofPool(id).filter((consumer) => consumer.state !== 'silent');
  // A program outside ends the processes that are left where the grace time is over: only what they hold is waited for.
  return isLate
    ? present.every((each) => heldBy(turn, each).size === 0)
    : spawned === 0 && present.length === 0;
}

const heldBy = ({ state }: Turn, { pool, name }: ConsumerRecord): ReadonlySet<JobEntry> =>
  state.pulled.held(consumerId(pool, name));

/** The attempts of a pool's consumers whose outcome nobody knows: their processes are gone, and use no device. */
const heldIn = (turn: Turn, id: string): JobEntry[] =>
  turn.state.consumers.ofPool(id).flatMap((each) => [...heldBy(turn, each)]);

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
