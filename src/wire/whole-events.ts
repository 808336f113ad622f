/** The bytes of a stream of server-sent events, held back until an event is whole: what is cut off is never passed on. */

const LINE_FEED = 0x0a;
const BETWEEN = Buffer.from('\n\n');

/** Of an event that is not whole yet. */
const MAX_HELD_BYTES = 64 * 2 ** 20;

export class WholeEvents {
  readonly #on: (piece: Buffer) => void;
  #held: Buffer[] = [];
  #heldBytes = 0;

  constructor(on: (piece: Buffer) => void) {
    this.#on = on;
  }

  push(piece: Buffer): void {
    const end = this.#endIn(piece);
    if (end > 0) {
      const whole = piece.subarray(0, end);
      this.#on(this.#held.length === 0 ? whole : Buffer.concat([...this.#held, whole]));
      this.#held = [];
      this.#heldBytes = 0;
    }
    if (end === piece.length) return;
    this.#held.push(piece.subarray(end));
    this.#heldBytes += piece.length - end;
    if (this.#heldBytes > MAX_HELD_BYTES) throw new RangeError('an event of the stream is too long');
  }

  /** Where the last whole event ends in it; its last line may have begun in the piece before. */
  #endIn(piece: Buffer): number {
    const at = piece.lastIndexOf(BETWEEN);
    if (at >= 0) return at + BETWEEN.length;
    return piece[0] === LINE_FEED && this.#held.at(-1)?.at(-1) === LINE_FEED ? 1 : 0;
  }
}
