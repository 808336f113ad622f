/** Counts the numbered tokens in the bytes of a stream, and the missing ones. */
import { DIGITS } from '../systems/source.ts';

const TAIL = 1000;
const ZERO = 0x30;

export class TokenCount {
  seen = 0;
  missing = 0;
  /** The number of the next expected token; it counts missing tokens too. */
  next = 0;
  readonly #mark: Buffer;
  /** Bytes carried over to the next piece, since a mark and its number may be split between two pieces. */
  readonly #carry: number;
  #rest: Buffer = Buffer.alloc(0);
  #tail = '';

  /** `mark` stands before the number of every token. */
  constructor(mark = '"t":"') {
    this.#mark = Buffer.from(mark);
    this.#carry = this.#mark.length + DIGITS;
  }

  push(piece: Buffer): void {
    const [mark, carry] = [this.#mark, this.#carry];
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    let from = 0;
    for (;;) {
      const at = bytes.indexOf(mark, from);
      if (at < 0 || at + carry > bytes.length) break;
      // The first piece of an OpenAI stream has an empty text.
      if (isDigit(bytes[at + mark.length])) this.#token(numberAt(bytes, at + mark.length));
      from = at + carry;
    }
    this.#rest = bytes.subarray(Math.max(from, bytes.length - carry + 1));
    this.#tail = (this.#tail + piece.toString('latin1', Math.max(0, piece.length - TAIL))).slice(-TAIL);
  }

  /** Checks the end of the stream, which must contain the number of tokens that were sent. */
  end(): void {
    const sent = /"(?:sent|completion_tokens)":(\d+)/.exec(this.#tail)?.[1];
    if (sent === undefined) throw new Error(`a stream ended without its end: ${this.#tail}`);
    this.missing += Number(sent) - this.next;
  }

  #token(n: number): void {
    if (n < this.next) throw new Error(`token ${n} came after ${this.next - 1}`);
    this.seen++;
    this.missing += n - this.next;
    this.next = n + 1;
  }
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte < ZERO + 10;

function numberAt(bytes: Buffer, at: number): number {
  let n = 0;
  for (let digit = 0; digit < DIGITS; digit++) n = n * 10 + (bytes[at + digit] as number) - ZERO;
  return n;
}
