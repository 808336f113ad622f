/**
 * Worker pools: what operators order, and what a program outside reports. keep-pools.ts carries the rows out.
 *
 * W1  The row is written before any of its workers is ordered.
 * W2  A pool that drains gets no new jobs, and what runs in it is not touched before its grace time is over.
 */
import type { Cause } from '../../model/causes.ts';
import { consumerId } from '../../model/consumer-record.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ModelRecord, WorkerRecord } from '../../model/records.ts';
import { isKept, type WorkerPoolRecord, type WorkerPoolSpec } from '../../model/worker-pool-record.ts';
import { modelOf } from '../admission/model.ts';
import { drainConsumer, isPoolOver } from '../attempts/presence.ts';
import type { Turn } from '../turn.ts';
import { type SizeView, wishedWorkers } from './ceiling.ts';
import { derivedModel, keepDerived, retireUnused } from './derived-models.ts';
import { drainOrStop } from './operator-commands.ts';
import { stop } from './plan.ts';
import { isLeaving } from './room.ts';

export type WorkerPoolOrder =
  | { readonly is: 'create'; readonly spec: WorkerPoolSpec }
  | { readonly is: 'change'; readonly desired?: number | undefined; readonly holdMs?: number | undefined }
  /** So many workers of the pool run, says the program that starts them. */
  | { readonly is: 'heartbeat'; readonly spawned: number }
  /** After `graceMs`, workers that are still busy are stopped; without it they may finish. */
  | { readonly is: 'drain'; readonly graceMs: number | undefined }
  /** Its workers are stopped at once, with whatever runs on them. */
  | { readonly is: 'evict' };

export const MAX_WORKER_POOLS = 10_000;
/** A heartbeat that brings nothing new is written when the last written one is so old. */
const WRITE_AFTER_MS = 60_000;

export function orderWorkerPool(
  turn: Turn,
  id: string,
  order: WorkerPoolOrder,
  by: string,
): WorkerPoolRecord {
  switch (order.is) {
    case 'create':
      return create(turn, id, order.spec, by);
    case 'change':
      return change(turn, id, order, by);
    case 'heartbeat':
      return heartbeat(turn, id, order.spawned);
    case 'drain':
      return drainWorkerPool(turn, id, order.graceMs, by);
    case 'evict':
      return evict(turn, id, by);
  }
}

export function workerPoolOf({ state }: Pick<Turn, 'state'>, id: string): WorkerPoolRecord {
  const record = state.tables.worker_pool.get(id);
  if (!record) throw new OrchdError('NOT_FOUND', `there is no worker pool "${id}"`);
  return record;
}

/** The record with its number of workers, and the status that follows from it. */
export function withSpawned(
  turn: SizeView,
  id: string,
  record: WorkerPoolRecord,
  spawned: number,
): WorkerPoolRecord {
  if (!isKept(record)) return { ...record, spawned };
  const status = spawned >= wishedWorkers(turn, id, record) ? 'running' : 'starting';
  return { ...record, spawned, status };
}

function create(turn: Turn, id: string, spec: WorkerPoolSpec, by: string): WorkerPoolRecord {
  const table = turn.state.tables.worker_pool;
  const known = table.get(id);
  // The same request again: the answer to the first was lost.
  if (known && isKept(known) && isSame(known, spec)) return known;
  if (known && (isKept(known) || known.status === 'draining'))
    throw new OrchdError('ILLEGAL_STATE', `there is a worker pool "${id}", which is ${known.status}`);
  if (!known && table.size >= MAX_WORKER_POOLS)
    throw new OrchdError('ADMISSION_REJECT', `there are ${MAX_WORKER_POOLS} worker pools already`, {
      reason: 'too_many_worker_pools',
    });
  turn.state.pools.forgetUse(id);
  const record: WorkerPoolRecord = {
    v: 1,
    ...spec,
    serves: servedModel(turn, spec),
    status: 'starting',
    spawned: 0,
    startedAt: turn.now,
    heartbeatAt: undefined,
    drainBy: undefined,
    by,
    at: turn.now,
  };
  put(turn, id, record, { is: 'set', by });
  if (known?.serves !== record.serves) retireUnused(turn, known?.serves);
  return record;
}

const isSame = (known: WorkerPoolRecord, spec: WorkerPoolSpec): boolean =>
  (Object.keys(spec) as (keyof WorkerPoolSpec)[]).every(
    (name) => JSON.stringify(known[name]) === JSON.stringify(spec[name]),
  );

/** The model that the workers will have. Throws for one that no worker could run. */
function servedModel(turn: Turn, spec: WorkerPoolSpec): string | undefined {
  const { model: name, provisioner } = spec;
  if (name === undefined) {
    if (provisioner === 'external') return undefined;
    const message = 'a worker pool of pool managers needs a model: name one in "model_id"';
    throw new OrchdError('INVALID_PARAMS', message, { field: 'model_id' });
  }
  const base = modelOf(turn.state, name);
  checkNotRetired(base);
  // A program outside is told of adapter and variant, and its consumers say themselves what they serve.
  if (provisioner === 'external') return base.id;
  const model = derivedModel(turn, base, spec);
  checkNotRetired(model);
  if (turn.state.pools.fitsNowhere(model.vramBytes)) {
    const message = `no device is large enough for "${model.id}", which needs ${model.vramBytes} bytes`;
    throw new OrchdError('INSUFFICIENT_VRAM', message, { retriable: false, field: 'model_id' });
  }
  keepDerived(turn, model);
  return model.id;
}

function checkNotRetired({ id, state }: ModelRecord): void {
  if (state !== 'retired') return;
  const message = `the model "${id}" is retired`;
  throw new OrchdError('ADMISSION_REJECT', message, { reason: 'model_retired', field: 'model_id' });
}

function change(
  turn: Turn,
  id: string,
  { desired, holdMs }: Extract<WorkerPoolOrder, { is: 'change' }>,
  by: string,
): WorkerPoolRecord {
  const known = workerPoolOf(turn, id);
  if (!isKept(known)) throw over(id, known);
  const changed = { ...known, desired: desired ?? known.desired, holdMs: holdMs ?? known.holdMs };
  const record = withSpawned(turn, id, { ...changed, by, at: turn.now }, known.spawned);
  return put(turn, id, record, { is: 'set', by });
}

const over = (id: string, { status }: WorkerPoolRecord): OrchdError =>
  new OrchdError('ILLEGAL_STATE', `the worker pool "${id}" is ${status}: once it has ended, create it again`);

function heartbeat(turn: Turn, id: string, spawned: number): WorkerPoolRecord {
  const known = workerPoolOf(turn, id);
  if (known.provisioner !== 'external') {
    const message = `the workers of "${id}" are counted by their pool managers: it takes no heartbeats`;
    throw new OrchdError('ILLEGAL_STATE', message);
  }
  const isDue = turn.now - (known.heartbeatAt ?? 0) >= WRITE_AFTER_MS;
  const record = withSpawned(turn, id, known, spawned);
  if (!isDue && record.spawned === known.spawned && record.status === known.status) return known;
  return put(turn, id, { ...record, heartbeatAt: turn.now }, 'heartbeat');
}

export function drainWorkerPool(
  turn: Turn,
  id: string,
  graceMs: number | undefined,
  by: string,
): WorkerPoolRecord {
  const known = workerPoolOf(turn, id);
  if (known.status === 'stopped' || known.status === 'evicted') throw over(id, known);
  const drainBy = graceMs === undefined ? undefined : turn.now + graceMs;
  const { graceOver: _, ...rest } = known;
  const record: WorkerPoolRecord = { ...rest, status: 'draining', drainBy, by, at: turn.now };
  put(turn, id, record, { is: 'drain', by });
  if (known.provisioner === 'external') drainConsumers(turn, id, by);
  for (const [worker, entry] of stayingWorkers(turn, id))
    drainOrStop(turn, worker, entry, { is: 'worker-pool-over', pool: id });
  return record;
}

function evict(turn: Turn, id: string, by: string): WorkerPoolRecord {
  const known = workerPoolOf(turn, id);
  if (known.status === 'stopped') throw over(id, known);
  const { graceOver: _, ...rest } = known;
  const record: WorkerPoolRecord = { ...rest, status: 'evicted', drainBy: undefined, by, at: turn.now };
  put(turn, id, record, { is: 'evict', by });
  if (known.provisioner === 'external') drainConsumers(turn, id, by);
  stopWorkers(turn, id);
  return record;
}

/** Stops the workers of a pool with whatever runs on them. */
export function stopWorkers(turn: Turn, id: string): void {
  for (const [worker, record] of turn.state.workers.keptFor(id))
    stop(turn, { id: worker, record }, { is: 'worker-pool-over', pool: id });
}

/** The consumers of the pool finish what they hold, and get nothing new. */
function drainConsumers(turn: Turn, pool: string, by: string): void {
  for (const { name, state } of turn.state.consumers.ofPool(pool))
    if (state === 'live') drainConsumer(turn, consumerId(pool, name), by);
}

/** A consumer has registered: where its pool is over, it is given nothing. */
export function drainIfOver(turn: Turn, pool: string, name: string): void {
  const by = turn.state.tables.worker_pool.get(pool)?.by ?? '';
  if (isPoolOver(turn, pool)) drainConsumer(turn, consumerId(pool, name), by);
}

/** Removes the row. */
export function deleteWorkerPool(turn: Turn, id: string): void {
  const known = workerPoolOf(turn, id);
  if (isKept(known) || known.status === 'draining')
    throw new OrchdError(
      'ILLEGAL_STATE',
      `the worker pool "${id}" is ${known.status}: drain or evict it first`,
    );
  turn.put('worker_pool', id, null, 'deleted');
  retireUnused(turn, known.serves);
  turn.state.pools.forgetUse(id);
}

export const stayingWorkers = ({ state }: Pick<Turn, 'state'>, id: string): [string, WorkerRecord][] =>
  state.workers.keptFor(id).filter(([, record]) => !isLeaving(record));

function put(turn: Turn, id: string, record: WorkerPoolRecord, cause: Cause): WorkerPoolRecord {
  turn.put('worker_pool', id, record, cause);
  turn.state.pools.changed = true;
  return record;
}
