/**
 * A token bucket that refills as time passes, without a timer.
 *
 * B1  Whoever asks for more than the bucket holds waits until it is full, and then leaves a debt: nothing is
 *     refused for ever because it is large.
 * B2  In debt nobody gets anything, however little it asks for.
 */

/** Rounding errors of this share are not worth a wait. */
const SLACK = 1e-9;

export class Bucket {
  rate: number;
  burst: number;
  level: number;
  /** What was reserved up to then was not taken from here, and is not given back. */
  readonly since: number;
  #at: number;

  /** Full at first. `rate` is per second. */
  constructor(rate: number, burst: number, now: number, since: number = Number.NEGATIVE_INFINITY) {
    this.rate = rate;
    this.burst = burst;
    this.level = burst;
    this.since = since;
    this.#at = now;
  }

  /** A level above the burst (of reservations that are about to be taken again) is kept as it is. */
  refill(now: number): void {
    if (now <= this.#at) return;
    if (this.level < this.burst) {
      this.level = Math.min(this.burst, this.level + (this.rate * (now - this.#at)) / 1000);
    }
    this.#at = now;
  }

  /** Milliseconds until `amount` could be taken: 0 is now, Infinity is never. Call after a refill. */
  waitMs(amount: number): number {
    if (this.burst <= 0) return Number.POSITIVE_INFINITY;
    const short = Math.min(amount, this.burst) - this.level;
    if (short <= SLACK * (this.rate + this.burst + 1)) return 0;
    if (this.rate <= 0) return Number.POSITIVE_INFINITY;
    return Math.max(1, Math.ceil((short / this.rate) * 1000 - 1e-6));
  }

  take(amount: number): void {
    this.level -= amount;
  }

  giveBack(amount: number): void {
    this.level = Math.max(this.level, Math.min(this.burst, this.level + amount));
  }

  /** Full, and without a credit above that. */
  isFull(): boolean {
    return this.level === this.burst;
  }

  /** Other numbers from now on: the level stays, clipped to the new burst. */
  change(rate: number, burst: number, now: number): void {
    this.refill(now);
    this.rate = rate;
    this.burst = burst;
    this.clip();
  }

  clip(): void {
    if (this.level > this.burst) this.level = this.burst;
  }
}
