/** Events of worker pools: what operators order, and what a program that starts workers reports. */
import { deleteWorkerPool, orderWorkerPool, type WorkerPoolOrder } from '../workers/worker-pools.ts';
import { type Handlers, mayRefuse, needsDiskSpace } from './handler.ts';

export type WorkerPoolEvent =
  | {
      readonly type: 'worker-pool';
      readonly id: string;
      readonly order: WorkerPoolOrder;
      readonly by: string;
    }
  | { readonly type: 'delete-worker-pool'; readonly id: string };

export const workerPools = {
  'worker-pool': needsDiskSpace((turn, { id, order, by }) => orderWorkerPool(turn, id, order, by)),
  'delete-worker-pool': mayRefuse((turn, { id }) => deleteWorkerPool(turn, id)),
} satisfies Handlers<WorkerPoolEvent>;
