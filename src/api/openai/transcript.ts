/**
 * The text sent on a stream so far. Sent text cannot be taken back: when a new attempt starts its output again, the
 * part it repeats is left out, and an attempt that contradicts the sent text has to end the stream.
 */
export class Transcript {
  #sent = '';
  /** Length of the text that the current attempt has produced. */
  #attemptChars = 0;
  /** Pieces of the current attempt were lost: nothing more is sent until the whole text shows what is missing. */
  #hasGap = false;
  /** Number of pieces that the current attempt has produced. */
  tokens = 0;

  get isEmpty(): boolean {
    return this.#sent === '';
  }

  /** Adds the next piece of the current attempt. Returns the part to send, or undefined if it contradicts sent text. */
  add(text: string): string | undefined {
    this.tokens++;
    if (this.#hasGap) return '';
    if (this.#attemptChars === this.#sent.length) {
      this.#sent += text;
      this.#attemptChars += text.length;
      return text;
    }
    const repeated = this.#sent.slice(this.#attemptChars, this.#attemptChars + text.length);
    if (!text.startsWith(repeated)) return undefined;
    const newText = text.slice(repeated.length);
    this.#sent += newText;
    this.#attemptChars += text.length;
    return newText;
  }

  /** A new attempt starts: its text begins again. */
  restart(): void {
    this.#attemptChars = 0;
    this.#hasGap = false;
    this.tokens = 0;
  }

  /** Some pieces of the current attempt were lost. */
  markGap(): void {
    if (!this.isEmpty) this.#hasGap = true;
  }

  /** Returns the part of the whole text that was not sent, or undefined if the text contradicts what was sent. */
  remainder(whole: string | undefined): string | undefined {
    if (whole?.startsWith(this.#sent)) {
      const newText = whole.slice(this.#sent.length);
      this.#sent = whole;
      this.#attemptChars = whole.length;
      return newText;
    }
    return this.#attemptChars === this.#sent.length && !this.#hasGap ? '' : undefined;
  }
}
