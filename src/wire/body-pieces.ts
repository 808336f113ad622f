/**
 * The bytes of a body while it arrives, in about as much memory as it has bytes, however small its pieces are: a chunk of
 * one byte is an object of its own, and keeps the memory of the whole read from the socket that it came in.
 */

/** Pieces of this size are kept as they are: a read from the socket has at most twice as many bytes. */
const KEPT_BYTES = 32 * 1024;
const FIRST_BLOCK_BYTES = 1024;
const MAX_BLOCK_BYTES = 64 * 1024;

export class BodyPieces {
  #pieces: Buffer[] = [];
  /** The block at the end, into which small pieces are copied, and the part of it that is filled. */
  #block: Buffer | undefined;
  #filled = 0;
  /** A small piece that came first, which is often all of the body. */
  #first: Buffer | undefined;

  add(piece: Buffer): void {
    if (piece.length >= KEPT_BYTES) {
      this.#seal();
      this.#pieces.push(piece);
    } else if (this.#first || this.#block || this.#pieces.length > 0) {
      this.#copyFirst();
      this.#copy(piece);
    } else this.#first = piece;
  }

  /** All bytes in their order. Nothing may be added any more. */
  take(): readonly Buffer[] {
    if (this.#first) return [this.#first];
    this.#seal();
    return this.#pieces;
  }

  clear(): void {
    this.#pieces = [];
    this.#block = undefined;
    this.#first = undefined;
  }

  #copyFirst(): void {
    const first = this.#first;
    this.#first = undefined;
    if (first) this.#copy(first);
  }

  #copy(piece: Buffer): void {
    for (let rest = piece; rest.length > 0; ) {
      const block = this.#blockWithRoom(rest.length);
      const copied = rest.copy(block, this.#filled);
      this.#filled += copied;
      rest = rest.subarray(copied);
    }
  }

  /** The block at the end, with room for at least one byte, and for `wanted` bytes unless it has its full size. */
  #blockWithRoom(wanted: number): Buffer {
    const block = this.#block;
    if (block && this.#filled === MAX_BLOCK_BYTES) {
      this.#seal();
      return this.#blockWithRoom(wanted);
    }
    const needed = Math.min(this.#filled + wanted, MAX_BLOCK_BYTES);
    if (block && block.length >= needed) return block;
    let size = block?.length ?? FIRST_BLOCK_BYTES;
    while (size < needed) size *= 2;
    // Not from the pool of Node, of which a small buffer would keep the whole.
    const larger = Buffer.allocUnsafeSlow(size);
    block?.copy(larger, 0, 0, this.#filled);
    this.#block = larger;
    return larger;
  }

  #seal(): void {
    this.#copyFirst();
    if (this.#block) this.#pieces.push(this.#block.subarray(0, this.#filled));
    this.#block = undefined;
    this.#filled = 0;
  }
}
