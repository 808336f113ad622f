/** The state of a worker in the form that the pool manager sends to the brain. */
import type { WorkerState, WorkerStatus } from '../../model/pool-wire.ts';
import type { ManagedWorkerRecord } from './layout.ts';

export function workerView(
  record: ManagedWorkerRecord,
  status: WorkerStatus,
  withToken: boolean,
): WorkerState {
  const { id, order, vramBytes, startedAt, ready, readyAt, error, secret } = record;
  return {
    id,
    model_ref: order.model_ref,
    gpu: order.gpu_id,
    vram_used: ready?.vram_bytes ?? vramBytes,
    status,
    started_at: new Date(startedAt).toISOString(),
    ...(readyAt !== undefined && { ready_at: new Date(readyAt).toISOString() }),
    ...(ready && {
      uri: ready.uri,
      slots: ready.slots,
      context_length: ready.context_length,
      registry: ready.registry,
      ...(ready.paid && { paid: true }),
      ...(ready.features && { features: ready.features }),
    }),
    ...(error && { error }),
    ...(withToken && { token: secret }),
  };
}
