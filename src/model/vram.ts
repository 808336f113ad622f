/** What a worker with a model will take of a device, where nobody has said. */

/** The weights, with what an engine has beside them. */
const SHARE_OF_FILE = 1.1;
/** What an engine computes in; and the memory of attention, where the header does not say what that takes. */
const SCRATCH_BYTES = 256 * 2 ** 20;

export interface ModelSize {
  readonly sizeBytes: number;
  /** What the memory of attention takes for every token, at 16 bits. */
  readonly kvBytesPerToken: number | undefined;
  readonly contextLength: number | undefined;
  readonly slots: number;
}

/**
 * A tenth more than the file, the memory of attention for a context of every slot, and room to compute in. It is a
 * rule of thumb, on the high side; whoever knows better says vram_bytes.
 */
export function estimateVram({ sizeBytes, kvBytesPerToken, contextLength, slots }: ModelSize): number {
  const attention = (kvBytesPerToken ?? 0) * (contextLength ?? 0) * slots;
  return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(sizeBytes * SHARE_OF_FILE + attention + SCRATCH_BYTES));
}
