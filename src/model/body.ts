/** The bodies of jobs: payloads, results, and what a job keeps between two attempts. */

/**
 * A reference to a body in the store, written once and never changed. It is a JSON value with further fields that only
 * the store that made it understands.
 */
export interface BlobRef {
  readonly bytes: number;
}

/** A payload or result: its JSON text when small, else a reference to a blob. */
export type Body = string | BlobRef;

/** Bodies up to this size are stored inside their record. */
export const INLINE_BODY_BYTES = 4096;
