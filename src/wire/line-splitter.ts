/** Splits bytes that arrive in pieces into lines. A line ends with LF or CRLF, the last one also with the bytes. */

import { BodyPieces } from './body-pieces.ts';

export interface Line {
  /** Its number, from 1; empty lines count. */
  readonly number: number;
  /** Undefined for a line that is too long. */
  readonly bytes: Buffer | undefined;
}

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from('\ufeff');

export class LineSplitter {
  readonly #maxBytes: number;
  #number = 0;
  /** The beginning of a line whose end has not arrived; empty while a too long line is skipped. */
  #begun = new BodyPieces();
  #begunBytes = 0;
  #isTooLong = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that are held until the end of their line arrives. */
  get heldBytes(): number {
    return this.#isTooLong ? 0 : this.#begunBytes;
  }

  /** Whether the line whose end has not arrived is too long already. */
  get isTooLong(): boolean {
    return this.#isTooLong;
  }

  /** The lines that end in this piece. Lines without a character other than blanks are left out. */
  *add(piece: Buffer): Generator<Line> {
    let start = 0;
    for (let end = piece.indexOf(LF); end >= 0; end = piece.indexOf(LF, start)) {
      this.#keep(piece.subarray(start, end));
      yield* this.#take();
      start = end + 1;
    }
    if (start < piece.length) this.#keep(piece.subarray(start));
  }

  /** The last line, if it does not end with a line feed. */
  *end(): Generator<Line> {
    if (this.#begunBytes > 0) yield* this.#take();
  }

  #keep(bytes: Buffer): void {
    this.#begunBytes += bytes.length;
    this.#isTooLong ||= this.#begunBytes > this.#maxBytes;
    if (this.#isTooLong) this.#begun.clear();
    else this.#begun.add(bytes);
  }

  *#take(): Generator<Line> {
    const number = ++this.#number;
    const isTooLong = this.#isTooLong;
    const pieces = this.#begun.take();
    const bytes = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
    this.#begun = new BodyPieces();
    this.#begunBytes = 0;
    this.#isTooLong = false;
    if (isTooLong) return yield { number, bytes: undefined };
    const text = trimmed(bytes, number === 1);
    if (text.length > 0) yield { number, bytes: text };
  }
}

/** Without the CR before the line feed, a byte order mark at the beginning of all, and nothing if only blanks are left. */
function trimmed(bytes: Buffer, isFirst: boolean): Buffer {
  const start = isFirst && bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  const end = bytes.at(-1) === CR ? bytes.length - 1 : bytes.length;
  const line = bytes.subarray(start, Math.max(start, end));
  return line.some((byte) => byte !== 0x20 && byte !== 0x09) ? line : line.subarray(0, 0);
}
