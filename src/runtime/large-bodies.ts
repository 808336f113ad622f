/**
 * The large bodies that are being sent to readers. All who read the same body at one time share its bytes, and all of
 * these share a room: without one, readers that ask for large results and do not read would fill the memory.
 */
import { type ByteRoom, type ByteShare, once, serverBusy } from '../kit/byte-room.ts';
import type { HeldBytes, LargeValue } from '../kit/held-bytes.ts';
import { ONE_TURN_BYTES } from '../kit/slices.ts';
import type { BlobRef, Body } from '../model/body.ts';

interface OpenBody {
  readonly bytes: Promise<Buffer>;
  readers: number;
  /** Undefined while there is no room for it. */
  share: Pick<ByteShare, 'release'> | undefined;
}

export class LargeBodies {
  readonly #room: ByteRoom;
  readonly #read: (ref: BlobRef) => Promise<Buffer>;
  /** By the JSON text of the reference. */
  readonly #open = new Map<string, OpenBody>();

  constructor(room: ByteRoom, read: (ref: BlobRef) => Promise<Buffer>) {
    this.#room = room;
    this.#read = read;
  }

  /** The body as a large value; undefined for a small one, which is simply read. */
  valueOf(body: Body | undefined): LargeValue | undefined {
    if (typeof body !== 'object' || body.bytes <= ONE_TURN_BYTES) return undefined;
    return { open: (when) => this.#hold(body, when) };
  }

  async #hold(ref: BlobRef, when: 'now' | 'later'): Promise<HeldBytes> {
    const name = JSON.stringify(ref);
    const known = this.#open.get(name);
    if (known && !known.share && when === 'now') throw serverBusy();
    const body = known ?? this.#begin(name, ref, when);
    body.readers++;
    const release = once(() => {
      if (--body.readers === 0) this.#forget(name, body);
    });
    try {
      return { bytes: await body.bytes, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #begin(name: string, ref: BlobRef, when: 'now' | 'later'): OpenBody {
    const body = when === 'now' ? this.#readNow(ref) : this.#readLater(ref);
    this.#open.set(name, body);
    // Whoever asks after a failure reads again.
    body.bytes.catch(() => this.#forget(name, body));
    return body;
  }

  #readNow(ref: BlobRef): OpenBody {
    const share = this.#room.enter();
    share.grow(ref.bytes);
    return { bytes: this.#read(ref), readers: 0, share };
  }

  #readLater(ref: BlobRef): OpenBody {
    const read = async (share: OpenBody['share']): Promise<Buffer> => {
      body.share = share;
      return this.#read(ref);
    };
    const body: OpenBody = { bytes: this.#room.wait(ref.bytes).then(read), readers: 0, share: undefined };
    return body;
  }

  #forget(name: string, body: OpenBody): void {
    if (this.#open.get(name) === body) this.#open.delete(name);
    body.share?.release();
  }
}
