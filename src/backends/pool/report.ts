/**
 * Translates the state that a pool manager sends (completed) into the report that the engine takes (`PoolReport`),
 * and marks workers whose address is not allowed as unusable.
 */
import type { PoolReport, ReportedWorker } from '../../core/ports/pools.ts';
import { type ErrorInfo, errorInfo, isErrorCode } from '../../model/errors.ts';
import type { DeviceState, WorkerState } from '../../model/pool-wire.ts';
import type { IsAllowedUri } from './allowed-uris.ts';
import type { CompleteState } from './complete-state.ts';

export function reportOf(state: CompleteState, isAllowed: IsAllowedUri): PoolReport {
  return {
    id: state.pool_id,
    registry: state.registry,
    version: state.version,
    region: state.region,
    labels: state.labels ?? {},
    devices: state.gpus.map(deviceOf),
    workers: state.workers.map((worker) => workerOf(worker, isAllowed)),
  };
}

const deviceOf = ({ id, kind, total_vram, allocated_vram, available_vram, status, reason }: DeviceState) => ({
  id,
  totalBytes: total_vram,
  allocatedBytes: allocated_vram,
  availableBytes: available_vram,
  ...(kind === 'cpu' && { isCpu: true }),
  ok: status !== 'error',
  reason,
});

function workerOf(worker: WorkerState, isAllowed: IsAllowedUri): ReportedWorker {
  return {
    id: worker.id,
    modelRef: worker.model_ref,
    device: worker.gpu,
    vramBytes: worker.vram_used,
    status: worker.status,
    unusable: whyUnusable(worker, isAllowed),
    error: worker.error && errorOf(worker.error),
    slots: Math.max(1, worker.slots ?? 1),
    contextLength: worker.context_length,
    registry: worker.registry ?? '',
    paid: worker.paid ?? false,
  };
}

function whyUnusable({ uri, status }: WorkerState, isAllowed: IsAllowedUri): string | undefined {
  if (uri === undefined) return status === 'ready' || status === 'busy' ? 'it has no address' : undefined;
  return isAllowed(uri) ? undefined : 'its address is outside of what is allowed';
}

const MAX_MESSAGE_CHARS = 2000;

function errorOf({ code, message }: { code: string; message: string }): ErrorInfo {
  const known = isErrorCode(code) ? code : 'WORKER_START_FAILED';
  return errorInfo(known, message.slice(0, MAX_MESSAGE_CHARS));
}
