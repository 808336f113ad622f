/** Pool managers, as the brain sees them: what they report, and what they can be told to do. */
import type { ErrorInfo } from '../../model/errors.ts';
import type { ResolvedModel, VerifyModel, VerifyResult, WorkerStatus } from '../../model/pool-wire.ts';
import type { Labels, WorkerRecord } from '../../model/records.ts';
import type { Commander } from '../../model/worker-wire.ts';
import type { BackendInfo, BackendSource } from './backend.ts';

/** A device of a pool, as its manager says. */
export interface PoolDevice {
  readonly id: number;
  readonly totalBytes: number;
  readonly availableBytes: number;
  readonly ok: boolean;
  readonly reason: string | undefined;
}

export interface ReportedWorker {
  readonly id: string;
  readonly modelRef: string;
  readonly device: number;
  readonly vramBytes: number;
  readonly status: WorkerStatus;
  /** Why it is not used though its pool shows it: an address outside of what is allowed, say. */
  readonly unusable: string | undefined;
  readonly error: ErrorInfo | undefined;
  readonly slots: number;
  readonly contextLength: number | undefined;
  readonly registry: string;
}

export interface PoolReport {
  readonly id: string;
  readonly registry: string;
  /** Another one means that something has changed. */
  readonly version: number;
  readonly region: string | undefined;
  readonly labels: Labels;
  readonly devices: readonly PoolDevice[];
  readonly workers: readonly ReportedWorker[];
}

/** A worker that is to be started. */
export type WorkerOrder = { readonly id: string } & Pick<
  WorkerRecord,
  'pool' | 'device' | 'modelRef' | 'vramBytes' | 'vramGuessed' | 'slots' | 'contextLength'
>;

/** Hears what pool managers say. */
export interface PoolsListener {
  /** Those of its workers that can be talked to were said to be present before. */
  reported(report: PoolReport): void;
  /** It has not answered for too long. */
  lost(pool: string): void;
  awaited(name: string, awaited: boolean): void;
}

/**
 * The pool managers: a source of workers, which the brain also starts and stops. A worker comes into the fleet by the
 * report of its pool, which says whether it is to be used. Every order may be repeated; what is refused is thrown as
 * an OrchdError.
 */
export interface PoolManagers extends BackendSource {
  /** Call before `start`. */
  watch(listener: PoolsListener): void;
  startWorker(order: WorkerOrder, who: Commander): Promise<void>;
  drainWorker(pool: string, worker: string, who: Commander): Promise<void>;
  stopWorker(pool: string, worker: string, who: Commander): Promise<void>;
  /** One has said where it is, and what it wants to be shown. */
  register(url: string, secret: string | undefined, id: string): void;
  /** A model with its revision and file pinned; undefined where no pool has it. */
  resolve(ref: string): Promise<ResolvedModel | undefined>;
  verify(
    model: VerifyModel,
    onProgress: (bytes: number, total: number) => void,
  ): Promise<VerifyResult & { readonly pool: string }>;
  /** A pool is gone for good. */
  forgetPool(id: string): void;
}

/** A worker as the fleet names it. */
export const workerBackend = (pool: string, worker: string): string => `${pool}/${worker}`;

/** What a worker is as a backend. */
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
    paid: false,
    keepsResults: true,
    registry: worker.registry,
    contextLength: worker.contextLength,
    home: { pool: report.id, device: worker.device },
  };
}
