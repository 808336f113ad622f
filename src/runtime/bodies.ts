/** Stores and reads bodies (payloads, results): a small body is kept inline in its record, a large one as a blob. */
import type { Store } from '../core/ports/store.ts';
import { OrchdError } from '../model/errors.ts';
import { type Body, INLINE_BODY_BYTES } from '../model/records.ts';

export class Bodies {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async store(text: string): Promise<Body> {
    const inline = this.inline(text);
    if (inline !== undefined) return inline;
    try {
      return await this.#store.putBlob(text);
    } catch (error) {
      if (error instanceof OrchdError) throw error;
      throw new OrchdError('STORE_FAILED', undefined, {}, { cause: error });
    }
  }

  /** The body itself if it is small enough to be kept inline. */
  inline(text: string): Body | undefined {
    const fits = text.length <= INLINE_BODY_BYTES && Buffer.byteLength(text) <= INLINE_BODY_BYTES;
    return fits ? text : undefined;
  }

  /**
   * Throws a permanent error only if the blob is damaged or missing; any other failure is STORE_BUSY, which is
   * retriable.
   */
  async read(body: Body): Promise<string> {
    if (typeof body === 'string') return body;
    try {
      return await this.#store.readBlob(body);
    } catch (error) {
      if (error instanceof OrchdError) throw error;
      throw new OrchdError('STORE_BUSY', 'a body cannot be read now', {}, { cause: error });
    }
  }
}
