/** Checks that a worker's ready report matches its start order. */
import type { WorkerReady } from '../../model/pool-wire.ts';
import type { ManagedWorkerRecord } from './layout.ts';
import type { WorkerContext } from './worker-context.ts';

export interface Mismatch {
  readonly why: string;
  /** The field of the ready report that does not match. */
  readonly field: string;
}

export function mismatchOf(
  report: WorkerReady,
  { order, vramBytes }: ManagedWorkerRecord,
  { hasRoom, allowsUri }: Pick<WorkerContext, 'hasRoom' | 'allowsUri'>,
): Mismatch | undefined {
  if (report.model_ref !== order.model_ref)
    return { why: 'it has another model than it was started for', field: 'model_ref' };
  const more = (report.vram_bytes ?? 0) - vramBytes;
  // An estimated need may turn out larger, if the device has room for it.
  const wasGuessed = order.vram_bytes === undefined;
  if (more > 0 && !(wasGuessed && hasRoom(order.gpu_id, more))) {
    const why = `it needs ${report.vram_bytes} bytes of the device, ${vramBytes} were promised`;
    return { why, field: 'vram_bytes' };
  }
  if (!allowsUri(report.uri)) return { why: 'it is reached at a place that is not allowed', field: 'uri' };
  return undefined;
}
