/** Whether a worker that says that it is ready is what was ordered. */
import type { WorkerReady } from '../../model/pool-wire.ts';
import type { WorkerRecord } from './layout.ts';
import type { WorkerParts } from './worker-parts.ts';

export interface Mismatch {
  readonly why: string;
  /** Of what it says. */
  readonly field: string;
}

export function mismatchOf(
  said: WorkerReady,
  { order, vramBytes }: WorkerRecord,
  { hasRoom, allowsUri }: Pick<WorkerParts, 'hasRoom' | 'allowsUri'>,
): Mismatch | undefined {
  if (said.model_ref !== order.model_ref)
    return { why: 'it has another model than it was started for', field: 'model_ref' };
  const more = said.vram_bytes - vramBytes;
  // What was only guessed may turn out to be more, where there is more.
  const wasGuessed = order.vram_bytes === undefined;
  if (more > 0 && !(wasGuessed && hasRoom(order.gpu_id, more))) {
    const why = `it needs ${said.vram_bytes} bytes of the device, ${vramBytes} were promised`;
    return { why, field: 'vram_bytes' };
  }
  if (!allowsUri(said.uri)) return { why: 'it is reached at a place that is not allowed', field: 'uri' };
  return undefined;
}
