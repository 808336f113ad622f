/** How fast the queue empties: the mean time between the last starts of jobs. */

/** The number of starts that the mean is taken over. */
const WINDOW = 64;

export class StartRate {
  readonly #starts: number[] = [];

  started(now: number): void {
    this.#starts.push(now);
    if (this.#starts.length > WINDOW) this.#starts.shift();
  }

  clear(): void {
    this.#starts.length = 0;
  }

  /** The expected time until one more job starts; undefined until two starts were seen. */
  retryAfterMs(now: number): number | undefined {
    const first = this.#starts[0];
    if (first === undefined || this.#starts.length < 2) return undefined;
    const mean = (now - first) / this.#starts.length;
    return Math.max(10, Math.min(60_000, Math.ceil(mean)));
  }
}
