/**
 * Brain time, which all records carry: the wall clock, read once per batch, but never earlier than the last committed
 * instant. If the wall clock is less than a minute behind that, brain time stands still until it has caught up; if it
 * is further behind, brain time advances by the monotonic clock. After a step of the wall clock of more than a minute
 * nothing expires for a minute: leases and deadlines were set before the step.
 */
import type { Clock } from '../kit/env/env.ts';

const STEP_MS = 60_000;
const NO_EXPIRY_AFTER_STEP_MS = 60_000;

export class BrainClock {
  readonly #clock: Clock;
  #last: number;
  /** Added to the wall clock of this machine to get that of the store. */
  #skewMs = 0;
  #wall: number;
  #monotonic: number;
  #noExpiryUntil = Number.NEGATIVE_INFINITY;
  /** Called with the size of a step of the wall clock. */
  onStep: ((byMs: number) => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#wall = clock.now();
    this.#monotonic = clock.monotonic();
    this.#last = this.#wall;
  }

  now(): number {
    const wall = this.#clock.now() + this.#skewMs;
    const monotonic = this.#clock.monotonic();
    const elapsed = monotonic - this.#monotonic;
    const step = wall - this.#wall - elapsed;
    this.#wall = wall;
    this.#monotonic = monotonic;
    if (Math.abs(step) > STEP_MS) {
      this.#noExpiryUntil = monotonic + NO_EXPIRY_AFTER_STEP_MS;
      this.onStep?.(step);
    }
    const behind = this.#last - wall;
    if (behind <= 0) this.#last = wall;
    else if (behind > STEP_MS) this.#last += elapsed;
    return Math.floor(this.#last);
  }

  /**
   * Continues after `committed`, the latest instant in the recovered records. `skewMs`: the store's clock minus ours.
   */
  startAt(committed: number, skewMs = 0): void {
    this.#skewMs = skewMs;
    this.#wall += skewMs;
    this.#last = Math.max(this.#last + skewMs, committed);
  }

  /**
   * Whether leases and deadlines may expire now. Reads the clock, so that a step is noticed even if nothing else read
   * it.
   */
  mayExpire(): boolean {
    this.now();
    return this.#clock.monotonic() >= this.#noExpiryUntil;
  }
}
