/**
 * What is where in the folder of a pool manager.
 *
 * P1  `workers/<id>.json` is on stable storage before the process of the worker is started, and is removed after
 *     the process is gone: whoever finds no file has no process to look for.
 * P2  Every process of a worker carries its mark in its environment, so that one whose pid was never written down
 *     is found again.
 * P3  One manager at a time has the folder; the lock dies with its process.
 */
import { join } from 'node:path';
import type { ProcessIdentity } from '../../kit/process/identity.ts';
import type { Mark } from '../../kit/process/marked.ts';
import type { ErrorInfo } from '../../model/errors.ts';
import type { StartWorker, WorkerReady } from '../../model/pool-wire.ts';
import type { Commander } from '../../model/worker-wire.ts';

export const layoutOf = (folder: string) => ({
  folder,
  lock: join(folder, 'lock'),
  registry: join(folder, 'registry.json'),
  epochs: join(folder, 'epochs.json'),
  token: join(folder, 'token'),
  workers: join(folder, 'workers'),
  logs: join(folder, 'logs'),
});
export type PoolLayout = ReturnType<typeof layoutOf>;

export const recordPath = ({ workers }: PoolLayout, id: string): string => join(workers, `${id}.json`);
export const logPath = ({ logs }: PoolLayout, id: string): string => join(logs, `${id}.log`);

/** The variable by which the processes of a worker are found again, whoever their parent is by then. */
export const MARK_VARIABLE = 'ORCHD_WORKER_MARK';
export const markOf = (registry: string, id: string): Mark => ({
  variable: MARK_VARIABLE,
  value: `${registry}/${id}`,
});

/** How far a worker was brought, on disk. */
export interface WorkerRecord {
  readonly id: string;
  readonly order: StartWorker;
  readonly vramBytes: number;
  /** What the worker shows to us, and its callers to it. */
  readonly secret: string;
  /** Of the command line; what was started is told from what would be started now. */
  readonly argvHash: string;
  readonly startedAt: number;
  readonly process?: ProcessIdentity;
  readonly readyAt?: number;
  readonly ready?: Omit<WorkerReady, 'worker_id' | 'model_ref'>;
  readonly drain?: { readonly deadlineAt?: number; readonly by?: Commander };
  /** It was told to go, and its file goes with it. */
  readonly stopped?: true;
  readonly error?: Pick<ErrorInfo, 'code' | 'message'>;
}

export function isWorkerRecord(value: Partial<WorkerRecord> | undefined, id: string): value is WorkerRecord {
  return (
    value?.id === id &&
    typeof value.order?.model_ref === 'string' &&
    Number.isSafeInteger(value.order.gpu_id) &&
    Number.isSafeInteger(value.vramBytes) &&
    typeof value.secret === 'string' &&
    typeof value.startedAt === 'number'
  );
}
