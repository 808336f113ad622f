/**
 * What a reader of a stream was shown. A stream of OpenAI cannot take anything back: where another attempt begins
 * anew, what it repeats is left out, and only what contradicts the text that is out there ends the stream.
 */
export class Transcript {
  #shown = '';
  /** How much of it the present attempt has said. */
  #at = 0;
  /** Something in between is lost: only the whole text can tell what is missing. */
  #broken = false;
  tokens = 0;

  get isEmpty(): boolean {
    return this.#shown === '';
  }

  /** What of the next piece is new; undefined where it contradicts what was shown. */
  add(text: string): string | undefined {
    this.tokens++;
    if (this.#broken) return '';
    if (this.#at === this.#shown.length) {
      this.#shown += text;
      this.#at += text.length;
      return text;
    }
    const known = this.#shown.slice(this.#at, this.#at + text.length);
    if (!text.startsWith(known)) return undefined;
    const fresh = text.slice(known.length);
    this.#shown += fresh;
    this.#at += text.length;
    return fresh;
  }

  /** Another attempt says everything once more. */
  again(): void {
    this.#at = 0;
    this.#broken = false;
    this.tokens = 0;
  }

  /** Some pieces cannot be had any more. */
  skip(): void {
    if (!this.isEmpty) this.#broken = true;
  }

  /** What is missing of the whole text; undefined where that contradicts what was shown. */
  rest(whole: string | undefined): string | undefined {
    if (whole?.startsWith(this.#shown)) {
      const fresh = whole.slice(this.#shown.length);
      this.#shown = whole;
      this.#at = whole.length;
      return fresh;
    }
    return this.#at === this.#shown.length && !this.#broken ? '' : undefined;
  }
}
