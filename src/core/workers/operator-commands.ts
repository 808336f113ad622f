/** The commands that operators give for pools and workers. */

import type { WorkerReason } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import type { PoolRecord } from '../../model/pool-record.ts';
import type { WorkerRecord } from '../../model/records.ts';
import { modelOf } from '../admission/model.ts';
import { workerBackend } from '../ports/pools.ts';
import type { Turn } from '../turn.ts';
import { drain, stop } from './plan.ts';
import { workerGone } from './reconcile.ts';

export type PoolOrder =
  /** The pool takes no new jobs; after `deadlineMs` its workers are stopped with whatever still runs on them. */
  | { readonly is: 'drain'; readonly deadlineMs: number | undefined }
  | { readonly is: 'undrain' }
  /** The pool's workers finish and stop, and a worker with this model replaces them. */
  | { readonly is: 'reload'; readonly model: string }
  /** The operator states that the pool is gone for good, with everything that ran on it. */
  | { readonly is: 'forget' };

export function orderPool(turn: Turn, id: string, order: PoolOrder, by: string): PoolRecord | undefined {
  const { state } = turn;
  const isKnown = state.pools.get(id) !== undefined || state.workers.inPool(id).length > 0;
  if (!isKnown) throw new OrchdError('NOT_FOUND', `there is no pool "${id}"`);
  state.pools.changed = true;
  switch (order.is) {
    case 'drain':
      return drainPool(turn, id, order.deadlineMs, by);
    case 'undrain':
      turn.put('pool', id, null, { is: 'undrain', by });
      return undefined;
    case 'reload':
      return reloadPool(turn, id, order.model, by);
    case 'forget':
      return forgetPool(turn, id);
  }
}

function drainPool(turn: Turn, id: string, deadlineMs: number | undefined, by: string): PoolRecord {
  const drainBy = deadlineMs === undefined ? undefined : turn.now + deadlineMs;
  const record: PoolRecord = { v: 1, draining: true, drainBy, reload: undefined, by, at: turn.now };
  turn.put('pool', id, record, { is: 'drain', by });
  for (const [worker, entry] of turn.state.workers.inPool(id))
    drainOrStop(turn, worker, entry, { is: 'pool-drained', by });
  return record;
}

function reloadPool(turn: Turn, id: string, name: string, by: string): PoolRecord {
  const model = modelOf(turn.state, name);
  if (model.state === 'retired') {
    throw new OrchdError('ADMISSION_REJECT', `the model "${model.id}" is retired`, {
      reason: 'model_retired',
    });
  }
  const devices = turn.state.pools.get(id)?.report.devices ?? [];
  if (!devices.some(({ totalBytes }) => totalBytes >= model.vramBytes)) {
    throw new OrchdError('INSUFFICIENT_VRAM', `no device of "${id}" is large enough for "${model.id}"`, {
      retriable: false,
    });
  }
  const record: PoolRecord = {
    v: 1,
    draining: undefined,
    drainBy: undefined,
    reload: model.id,
    by,
    at: turn.now,
  };
  turn.put('pool', id, record, { is: 'reload', by });
  for (const [worker, entry] of turn.state.workers.inPool(id)) {
    if (entry.modelRef !== model.ref) drainOrStop(turn, worker, entry, { is: 'pool-reloaded', by });
  }
  return record;
}

/** Removes a pool that does not answer. Without the operator's word its attempts would stay unknown. */
function forgetPool(turn: Turn, id: string): undefined {
  const { pools, workers, tables } = turn.state;
  if (pools.get(id)?.up) {
    throw new OrchdError(
      'ILLEGAL_STATE',
      `the pool "${id}" answers: drain it instead, or stop its manager first`,
    );
  }
  for (const [worker, record] of workers.inPool(id)) workerGone(turn, worker, record);
  if (tables.pool.get(id)) turn.put('pool', id, null, 'forgotten');
  pools.known.delete(id);
  pools.remeasure();
  pools.awaited.delete(id);
}

/** Evicts a worker for an operator: a busy one finishes its jobs first, unless the operator states that it is dead. */
export function evictWorker(turn: Turn, id: string, by: string, isDead: boolean): WorkerRecord {
  const record = turn.state.workers.get(id);
  if (!record) throw new OrchdError('WORKER_NOT_FOUND', `there is no worker "${id}"`);
  if (isDead) {
    removeDeadWorker(turn, id, record);
    return record;
  }
  drainOrStop(turn, id, record, { is: 'evicted-by', by });
  return turn.state.workers.get(id) ?? record;
}

/** Removes a worker that its pool does not report; only the operator can tell that its process is gone. */
function removeDeadWorker(turn: Turn, id: string, record: WorkerRecord): void {
  const pool = turn.state.pools.get(record.pool);
  if (pool?.up && pool.workers.has(id)) {
    throw new OrchdError('ILLEGAL_STATE', `its pool shows the worker "${id}": evict it instead`);
  }
  workerGone(turn, id, record);
}

/** A worker with jobs finishes them first. */
export function drainOrStop(turn: Turn, id: string, record: WorkerRecord, why: WorkerReason): void {
  const used = turn.fleet.usedSlots(workerBackend(record.pool, id));
  if (used === 0) stop(turn, { id, record }, why);
  else drain(turn, { id, record }, why);
}
