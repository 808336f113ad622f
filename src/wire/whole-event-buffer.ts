/**
 * Passes on the bytes of an event stream only up to the end of a complete event, so that a truncated event is never
 * sent.
 */

const LINE_FEED = 0x0a;
const EVENT_END = Buffer.from('\n\n');

/** Limit of an incomplete event. */
const MAX_EVENT_BYTES = 64 * 2 ** 20;

export class WholeEventBuffer {
  readonly #on: (piece: Buffer) => void;
  #incomplete: Buffer[] = [];
  #incompleteBytes = 0;

  constructor(on: (piece: Buffer) => void) {
    this.#on = on;
  }

  push(piece: Buffer): void {
    const end = this.#endIn(piece);
    if (end > 0) {
      const whole = piece.subarray(0, end);
      this.#on(this.#incomplete.length === 0 ? whole : Buffer.concat([...this.#incomplete, whole]));
      this.#incomplete = [];
      this.#incompleteBytes = 0;
    }
    if (end === piece.length) return;
    this.#incomplete.push(piece.subarray(end));
    this.#incompleteBytes += piece.length - end;
    if (this.#incompleteBytes > MAX_EVENT_BYTES) throw new RangeError('an event of the stream is too long');
  }

  /**
   * The end of the last complete event in the piece; its closing blank line may span the previous piece and this one.
   */
  #endIn(piece: Buffer): number {
    const at = piece.lastIndexOf(EVENT_END);
    if (at >= 0) return at + EVENT_END.length;
    return piece[0] === LINE_FEED && this.#incomplete.at(-1)?.at(-1) === LINE_FEED ? 1 : 0;
  }
}
