/** What the record of a worker says, in the forms in which the pool manager counts its memory and reports it to the brain. */
import type { WorkerState, WorkerStatus } from '../../model/pool-wire.ts';
import type { MeasuredMemory, WorkerMemory } from './device-memory.ts';
import type { ManagedWorkerRecord } from './layout.ts';

/** `measured`: what this manager has measured; else the figure of an earlier one counts, which is on disk. */
export function memoryOf(
  { id, order, vramBytes, measuredBytes }: ManagedWorkerRecord,
  measured: MeasuredMemory | undefined,
  usedSince: number | undefined,
): WorkerMemory {
  const earlier =
    measuredBytes === undefined ? undefined : { bytes: measuredBytes, at: Number.POSITIVE_INFINITY };
  return {
    workerId: id,
    gpu: order.gpu_id,
    reservedBytes: vramBytes,
    isOrdered: order.vram_bytes !== undefined,
    measured: measured ?? earlier,
    usedSince,
  };
}

export function workerView(
  record: ManagedWorkerRecord,
  status: WorkerStatus,
  measuredBytes: number | undefined,
  withToken: boolean,
): WorkerState {
  const { id, order, startedAt, ready, readyAt, error, secret } = record;
  return {
    id,
    model_ref: order.model_ref,
    gpu: order.gpu_id,
    vram_used: usedBytes(record, measuredBytes),
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

/** While the worker is starting, at least what is reserved for it. */
function usedBytes({ ready, vramBytes }: ManagedWorkerRecord, measuredBytes: number | undefined): number {
  if (!ready) return Math.max(vramBytes, measuredBytes ?? 0);
  return measuredBytes ?? ready.vram_bytes ?? vramBytes;
}
