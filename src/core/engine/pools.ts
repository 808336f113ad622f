/** Events of pools and their workers: reports of pool managers, and commands of operators. */
import type { ErrorInfo } from '../../model/errors.ts';
import type { EvictedKind } from '../../model/policy.ts';
import type { PoolReport } from '../ports/pools.ts';
import { evictPool } from '../workers/evict-pool.ts';
import { evictWorker, orderPool, type PoolOrder } from '../workers/operator-commands.ts';
import { poolLost, poolReported, startFailed } from '../workers/reconcile.ts';
import { type Handlers, mayRefuse } from './handler.ts';

export type PoolEvent =
  /** `awaited`: the pool manager `name` is configured or has registered, but has not reported yet. False ends the wait. */
  | { readonly type: 'pool-awaited'; readonly name: string; readonly awaited: boolean }
  | { readonly type: 'pool'; readonly report: PoolReport }
  | { readonly type: 'pool-lost'; readonly id: string; readonly problem?: string | undefined }
  | { readonly type: 'start-failed'; readonly worker: string; readonly error: ErrorInfo }
  | { readonly type: 'pool-order'; readonly id: string; readonly order: PoolOrder; readonly by: string }
  /** `isDead`: the operator states that the worker's process is gone. */
  | { readonly type: 'evict'; readonly worker: string; readonly by: string; readonly isDead?: boolean }
  /** Stop all workers of a pool, or of a worker pool. `kind` is needed where both have this name. */
  | {
      readonly type: 'evict-pool';
      readonly pool: string;
      readonly kind?: EvictedKind | undefined;
      readonly by: string;
    };

export const pools = {
  'pool-awaited': ({ state }, { name, awaited }) => {
    if (awaited) state.pools.awaited.add(name);
    else state.pools.awaited.delete(name);
  },
  pool: (turn, { report }) => poolReported(turn, report),
  'pool-lost': (turn, { id, problem }) => poolLost(turn, id, problem),
  'start-failed': (turn, { worker, error }) => startFailed(turn, worker, error),
  'pool-order': mayRefuse((turn, { id, order, by }) => orderPool(turn, id, order, by)),
  evict: mayRefuse((turn, { worker, by, isDead }) => evictWorker(turn, worker, by, isDead ?? false)),
  'evict-pool': mayRefuse((turn, { pool, kind, by }) => evictPool(turn, pool, kind, by)),
} satisfies Handlers<PoolEvent>;
