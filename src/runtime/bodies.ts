/** Stores and reads bodies (payloads, results): a small body is kept inline in its record, a large one as a blob. */
import type { Store } from '../core/ports/store.ts';
import type { ByteRoom } from '../kit/byte-room.ts';
import { type BlobRef, type Body, INLINE_BODY_BYTES } from '../model/body.ts';
import { OrchdError } from '../model/errors.ts';
import { LargeBodies } from './large-bodies.ts';

export class Bodies {
  readonly #store: Store;
  /** For readers outside of this process. */
  readonly large: LargeBodies;

  /** `room`: the memory for large bodies that are being sent. */
  constructor(store: Store, room: ByteRoom) {
    this.#store = store;
    this.large = new LargeBodies(room, (ref) => this.#read(ref));
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
    return typeof body === 'string' ? body : (await this.#read(body)).toString();
  }

  async #read(ref: BlobRef): Promise<Buffer> {
    try {
      return await this.#store.readBlob(ref);
    } catch (error) {
      if (error instanceof OrchdError) throw error;
      throw new OrchdError('STORE_BUSY', 'a body cannot be read now', {}, { cause: error });
    }
  }
}
