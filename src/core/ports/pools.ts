/** The port to pool managers: what they report, and the orders that they take. */
import type { ErrorInfo } from '../../model/errors.ts';
import type { ResolvedModel, VerifyModel, VerifyResult, WorkerStatus } from '../../model/pool-wire.ts';
import type { Labels, WorkerRecord } from '../../model/records.ts';
import type { Commander } from '../../model/worker-wire.ts';
import type { BackendInfo, BackendSource } from './backend.ts';

/** A device of a pool, as reported by its manager. */
export interface PoolDevice {
  readonly id: number;
  readonly totalBytes: number;
  /** What its workers have, or have been allotted. */
  readonly allocatedBytes: number;
  /** What a new worker could get, as the manager has measured it: programs that it does not know use memory too. */
  readonly availableBytes: number;
  /** It is no GPU: leases are not granted on it. */
  readonly isCpu?: boolean | undefined;
  readonly ok: boolean;
  readonly reason: string | undefined;
}

export interface ReportedWorker {
  readonly id: string;
  readonly modelRef: string;
  readonly device: number;
  readonly vramBytes: number;
  readonly status: WorkerStatus;
  /** Why the brain does not use this worker: its address is not allowed, say. */
  readonly unusable: string | undefined;
  readonly error: ErrorInfo | undefined;
  readonly slots: number;
  readonly contextLength: number | undefined;
  readonly registry: string;
  /** Whether a second execution would cost money: it passes jobs to a server that charges for them. */
  readonly paid: boolean;
}

export interface PoolReport {
  readonly id: string;
  readonly registry: string;
  /** Changes whenever the reported state of the pool changes. */
  readonly version: number;
  readonly region: string | undefined;
  readonly labels: Labels;
  readonly devices: readonly PoolDevice[];
  readonly workers: readonly ReportedWorker[];
}

/** The order to start a worker. */
export type WorkerOrder = { readonly id: string } & Pick<
  WorkerRecord,
  'pool' | 'device' | 'modelRef' | 'vramBytes' | 'vramGuessed' | 'slots' | 'contextLength'
>;

/** Receives the reports of pool managers. */
export interface PoolsListener {
  /** A report has arrived. Its reachable workers were announced as backends before. */
  reported(report: PoolReport): void;
  /** The pool has not answered for too long; `problem`: it has answered with reports that were refused, and why. */
  lost(pool: string, problem?: string): void;
  /** Whether a manager is known that has not reported yet. */
  awaited(name: string, awaited: boolean): void;
}

/**
 * The pool managers: a source of workers, which the brain also starts and stops. A worker enters the fleet through the
 * report of its pool, which also says whether it can be used. Every order may be repeated; a refusal is thrown as an
 * OrchdError.
 */
export interface PoolManagers extends BackendSource {
  /** Call before `start`. */
  watch(listener: PoolsListener): void;
  /** Returns the id of the worker: a manager may name its workers itself. */
  startWorker(order: WorkerOrder, who: Commander): Promise<string>;
  drainWorker(pool: string, worker: string, who: Commander): Promise<void>;
  stopWorker(pool: string, worker: string, who: Commander): Promise<void>;
  /** A manager has announced its address and the secret that it expects. */
  register(url: string, secret: string | undefined, id: string): void;
  /** A model with its revision and file pinned; undefined if no pool has it. */
  resolve(ref: string): Promise<ResolvedModel | undefined>;
  verify(
    model: VerifyModel,
    onProgress: (bytes: number, total: number) => void,
  ): Promise<VerifyResult & { readonly pool: string }>;
  /** The address of the manager of a pool, if it is known. */
  addressOf(pool: string): string | undefined;
  /** Stops polling a pool that is gone for good. */
  forgetPool(id: string): void;
}

/** The name of a worker as a backend. */
export const workerBackend = (pool: string, worker: string): string => `${pool}/${worker}`;

/** The declaration of a worker as a backend. */
export function workerInfo(report: PoolReport, worker: ReportedWorker): BackendInfo {
  const labels: Record<string, string> = { ...report.labels, pool: report.id };
  if (report.region !== undefined) labels['region'] = report.region;
  return {
    name: workerBackend(report.id, worker.id),
    kind: 'worker',
    slots: worker.slots,
    types: ['inference'],
    models: [worker.modelRef],
    labels,
    paid: worker.paid,
    keepsResults: true,
    registry: worker.registry,
    contextLength: worker.contextLength,
    home: { pool: report.id, device: worker.device },
  };
}
