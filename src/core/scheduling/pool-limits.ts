/**
 * The pools of a backend as limits name them, and how much runs in one. `pool:NAME` is about the workers of a pool manager
 * of this name, the workers that a worker pool of this name keeps, and the consumers of such a worker pool, together;
 * `pool:consumers/NAME` is about the consumers of a pool alone.
 */
import { backendOfPool, isPoolOfConsumers, poolOfBackend } from '../../model/consumer-record.ts';
import type { BackendInfo } from '../ports/backend.ts';
import { workerBackend } from '../ports/pools.ts';
import type { State } from '../state/state.ts';
import type { EngineView } from '../turn.ts';

export function poolsOf({ workers, tables }: State, info: BackendInfo): readonly string[] {
  const { home, isPulled, name } = info;
  if (home) {
    const kept = workers.get(name.slice(name.indexOf('/') + 1))?.workerPool;
    return kept === undefined || kept === home.pool ? [home.pool] : [home.pool, kept];
  }
  if (!isPulled) return NONE;
  const pool = poolOfBackend(name);
  return tables.worker_pool.get(pool) ? [name, pool] : [name];
}

const NONE: readonly string[] = [];

/** Jobs that run on the backends of a pool, or are offered to its consumers. */
export function runningIn({ state, queue: { fleet } }: EngineView, pool: string): number {
  const { workers, tables } = state;
  if (isPoolOfConsumers(pool)) return fleet.usedSlots(pool);
  let used = tables.worker_pool.get(pool) ? fleet.usedSlots(backendOfPool(pool)) : 0;
  for (const backend of fleet.backends.values()) if (backend.info.home?.pool === pool) used += backend.used;
  for (const [id, { pool: home }] of workers.keptFor(pool))
    if (home !== pool) used += fleet.usedSlots(workerBackend(home, id));
  return used;
}
