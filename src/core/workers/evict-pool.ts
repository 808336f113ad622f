/** Stops all workers of a pool, for an operator: that of a pool manager, or a worker pool. */
import { OrchdError } from '../../model/errors.ts';
import type { EvictedKind } from '../../model/policy.ts';
import type { Turn } from '../turn.ts';
import { evictWorker } from './operator-commands.ts';
import { orderWorkerPool, stayingWorkers } from './worker-pools.ts';

/**
 * Returns the ids of the workers. Busy workers of a pool manager finish their jobs, and its pool goes on; those of a worker
 * pool are stopped at once, and it is over. Throws INVALID_PARAMS for a name that both have, unless `kind` says which.
 */
export function evictPool(
  turn: Turn,
  id: string,
  kind: EvictedKind | undefined,
  by: string,
): readonly string[] {
  const { pools, workers, tables } = turn.state;
  const here = workers.inPool(id);
  const isManaged = kind !== 'worker_pool' && (here.length > 0 || pools.get(id) !== undefined);
  const isWorkerPool = kind !== 'pool' && tables.worker_pool.get(id) !== undefined;
  if (isManaged && isWorkerPool) {
    const message = `"${id}" is a worker pool, and the pool of a pool manager too: say which in "kind"`;
    throw new OrchdError('INVALID_PARAMS', message, { field: 'kind' });
  }
  if (isWorkerPool) {
    const stopped = stayingWorkers(turn, id);
    orderWorkerPool(turn, id, { is: 'evict' }, by);
    return stopped.map(([worker]) => worker);
  }
  if (!isManaged) throw new OrchdError('NOT_FOUND', `there is no pool "${id}"`);
  for (const [worker] of here) evictWorker(turn, worker, by, false);
  return here.map(([worker]) => worker);
}
