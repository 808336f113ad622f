/** How fast the queue empties: the mean time between the last starts of jobs. */
const REMEMBERED = 64;

export class StartRate {
  readonly #starts: number[] = [];

  started(now: number): void {
    this.#starts.push(now);
    if (this.#starts.length > REMEMBERED) this.#starts.shift();
  }

  /** About how long until one more place is free; undefined until there is something to measure. */
  retryAfterMs(now: number): number | undefined {
    const first = this.#starts[0];
    if (first === undefined || this.#starts.length < 2) return undefined;
    const mean = (now - first) / this.#starts.length;
    return Math.max(10, Math.min(60_000, Math.ceil(mean)));
  }
}
