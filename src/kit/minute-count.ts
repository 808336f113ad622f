/** Adds up what came in the last minute, in buckets of a second. */
const SECONDS = 60;

export class MinuteCount {
  readonly #buckets = new Float64Array(SECONDS);
  #second = 0;
  #sum = 0;

  add(amount: number, nowMs: number): void {
    this.#forget(nowMs);
    this.#buckets[this.#second % SECONDS] = (this.#buckets[this.#second % SECONDS] ?? 0) + amount;
    this.#sum += amount;
  }

  sum(nowMs: number): number {
    this.#forget(nowMs);
    return this.#sum;
  }

  /** Empties the buckets of the seconds that have passed since. A clock that was set back stands still. */
  #forget(nowMs: number): void {
    const second = Math.max(this.#second, Math.floor(nowMs / 1000));
    if (second - this.#second >= SECONDS) {
      this.#buckets.fill(0);
      this.#sum = 0;
    } else
      for (let at = this.#second + 1; at <= second; at++) {
        this.#sum -= this.#buckets[at % SECONDS] ?? 0;
        this.#buckets[at % SECONDS] = 0;
      }
    this.#second = second;
  }
}
