/**
 * Cuts a stream of bytes into pieces: after each newline (or space), and where a piece would be longer than 16 KiB. The
 * cuts depend on the bytes alone, not on the chunks in which they arrive, and are never inside a UTF-8 character: the
 * pieces decoded one by one give the same text as all bytes decoded at once.
 */
import type { Split } from './layout.ts';

export const MAX_PIECE_BYTES = 16 * 1024;

const SPACE = 0x20;
const NEWLINE = 0x0a;
const EMPTY: Buffer = Buffer.alloc(0);

export class Splitter {
  readonly #split: Split;
  #rest = EMPTY;

  constructor(split: Split) {
    this.#split = split;
  }

  /** The number of bytes that belong to no piece yet; fewer than MAX_PIECE_BYTES. */
  get pending(): number {
    return this.#rest.length;
  }

  /** Returns the pieces that are complete with these bytes. */
  push(bytes: Buffer): Buffer[] {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const pieces: Buffer[] = [];
    let at = 0;
    for (let end = this.#cut(all, at); end !== undefined; end = this.#cut(all, at)) {
      pieces.push(all.subarray(at, end));
      at = end;
    }
    // A copy, so that a few bytes do not keep a whole chunk alive.
    this.#rest = at < all.length ? Buffer.from(all.subarray(at)) : EMPTY;
    return pieces;
  }

  /** Returns the rest as the last piece, when no more bytes come. */
  end(): Buffer[] {
    const last = this.#rest;
    this.#rest = EMPTY;
    return last.length > 0 ? [last] : [];
  }

  #cut(bytes: Buffer, from: number): number | undefined {
    const limit = from + MAX_PIECE_BYTES;
    const end = this.#separator(bytes, from, Math.min(limit, bytes.length));
    if (end !== undefined) return end;
    return bytes.length >= limit ? characterEnd(bytes, limit) : undefined;
  }

  #separator(bytes: Buffer, from: number, to: number): number | undefined {
    if (this.#split === 'line') {
      const at = bytes.subarray(from, to).indexOf(NEWLINE);
      return at < 0 ? undefined : from + at + 1;
    }
    for (let at = from; at < to; at++) if (bytes[at] === SPACE || bytes[at] === NEWLINE) return at + 1;
    return undefined;
  }
}

/**
 * The last offset at or before `limit` that is not inside a UTF-8 character, found from the bytes before it alone. Bytes
 * that are not UTF-8 are cut at `limit` or before a lead byte.
 */
export function characterEnd(bytes: Buffer, limit: number): number {
  for (let back = 1; back <= 3 && back <= limit; back++) {
    const byte = bytes[limit - back] as number;
    if (byte < 0x80) return limit;
    if (byte >= 0xc0) return lengthOf(byte) > back ? limit - back : limit;
  }
  return limit;
}

const lengthOf = (lead: number): number => (lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2);
