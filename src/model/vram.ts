/** Estimates the device memory of a worker whose model has no `vram_bytes`. */

/** The weights take the size of the file; the engine adds a tenth. */
const SHARE_OF_FILE = 1.1;
/** Working memory of the engine; it also has to cover the KV cache where its size per token is unknown. */
const SCRATCH_BYTES = 256 * 2 ** 20;

export interface ModelSize {
  readonly sizeBytes: number;
  /** The KV cache per token in bytes, at 16 bits; undefined if the file's header does not tell. */
  readonly kvBytesPerToken: number | undefined;
  readonly contextLength: number | undefined;
  readonly slots: number;
}

/**
 * A tenth more than the file, a KV cache of the full context for every slot, and working memory. It is a rule of thumb,
 * on the high side; an operator who knows better sets vram_bytes.
 */
export function estimateVram({ sizeBytes, kvBytesPerToken, contextLength, slots }: ModelSize): number {
  const kvCache = (kvBytesPerToken ?? 0) * (contextLength ?? 0) * slots;
  return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(sizeBytes * SHARE_OF_FILE + kvCache + SCRATCH_BYTES));
}
