/**
 * The files in the folder of a pool manager.
 *
 * P1  `workers/<id>.json` is on stable storage before the worker's process is started, and is removed after the process
 *     has ended: without a file there is no process to look for.
 * P2  Every process of a worker has the worker's mark in its environment, so that a process whose pid was never written
 *     is found by it.
 * P3  One manager at a time has the folder; the lock is released when its process dies.
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

/** The names of these files, with the suffixes of SQLite and of temporary files. */
export const isPoolFile = (name: string): boolean =>
  /^(lock(-journal)?|(registry|epochs)\.json|token|workers|logs)$|\.tmp$/.test(name);

export type PoolLayout = ReturnType<typeof layoutOf>;

export const recordPath = ({ workers }: PoolLayout, id: string): string => join(workers, `${id}.json`);
export const logPath = ({ logs }: PoolLayout, id: string): string => join(logs, `${id}.log`);

/** The environment variable by which all processes of a worker are found, also when their parent has died. */
export const MARK_VARIABLE = 'ORCHD_WORKER_MARK';
export const markOf = (registry: string, id: string): Mark => ({
  variable: MARK_VARIABLE,
  value: `${registry}/${id}`,
});

/** `workers/<id>.json`: the start order of a worker and how far it was carried out. */
export interface ManagedWorkerRecord {
  readonly id: string;
  readonly order: StartWorker;
  /** The device memory that was reserved: as ordered, else estimated, and raised to what the ready report says. */
  readonly vramBytes: number;
  /** The device memory by the difference around the start, which can be measured only once. */
  readonly measuredBytes?: number;
  /** The bearer token that the worker sends to us, and that its callers send to the worker. */
  readonly secret: string;
  /** A hash of the command line, to compare a running worker with what would be started now. */
  readonly argvHash: string;
  readonly startedAt: number;
  readonly process?: ProcessIdentity;
  readonly readyAt?: number;
  readonly ready?: Omit<WorkerReady, 'worker_id' | 'model_ref'>;
  readonly drain?: { readonly deadlineAt?: number; readonly by?: Commander };
  /** The worker was ordered to stop; its record is removed when its processes have ended. */
  readonly stopped?: true;
  readonly error?: Pick<ErrorInfo, 'code' | 'message'>;
}

export function isManagedWorkerRecord(
  value: Partial<ManagedWorkerRecord> | undefined,
  id: string,
): value is ManagedWorkerRecord {
  return (
    value?.id === id &&
    typeof value.order?.model_ref === 'string' &&
    Number.isSafeInteger(value.order.gpu_id) &&
    Number.isSafeInteger(value.vramBytes) &&
    typeof value.secret === 'string' &&
    typeof value.startedAt === 'number'
  );
}
