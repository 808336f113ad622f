/**
 * A token bucket that refills as time passes, without a timer.
 *
 * B1  A request for more than `burst` waits until the bucket is full, and then leaves a debt: no request is refused for
 *     ever because it is large.
 * B2  While the bucket is in debt, no request is granted, however small.
 */

/** A shortage below this share is a rounding error and does not cause a wait. */
const SLACK = 1e-9;

export class Bucket {
  rate: number;
  burst: number;
  level: number;
  /** Reservations up to this instant were not taken from this bucket, and are not given back to it. */
  readonly since: number;
  #at: number;

  /** A full bucket. `rate` is per second. */
  constructor(rate: number, burst: number, now: number, since: number = Number.NEGATIVE_INFINITY) {
    this.rate = rate;
    this.burst = burst;
    this.level = burst;
    this.since = since;
    this.#at = now;
  }

  /** Goes on at the level that the bucket had at an earlier instant. */
  resume(level: number, at: number, now: number): void {
    this.level = Math.min(level, this.burst);
    this.#at = Math.min(at, now);
    this.refill(now);
  }

  /** Adds what time has brought, up to `burst`. A level above `burst` is left unchanged. */
  refill(now: number): void {
    // Brain time was set back: what passes from now on counts.
    if (now < this.#at) this.#at = now;
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

  /** Exactly full: a level above `burst` does not count. */
  isFull(): boolean {
    return this.level === this.burst;
  }

  /** Changes rate and burst. The level stays, clipped to the new burst. */
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
