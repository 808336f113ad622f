/**
 * Brain time: the instant that records carry. It is the wall clock, read once per batch and never earlier than
 * what was committed before. When the wall clock is stepped by more than a minute nothing expires for a while:
 * leases and deadlines were set on the other side of the step.
 */
import type { Clock } from '../kit/env/env.ts';

const STEP_MS = 60_000;
const HOLD_AFTER_STEP_MS = 60_000;

export class BrainClock {
  readonly #clock: Clock;
  #last: number;
  #wall: number;
  #monotonic: number;
  #heldUntil = Number.NEGATIVE_INFINITY;
  /** Called with the size of a step. */
  onStep: ((byMs: number) => void) | undefined;

  constructor(clock: Clock, notBefore = 0) {
    this.#clock = clock;
    this.#wall = clock.now();
    this.#monotonic = clock.monotonic();
    this.#last = Math.max(this.#wall, notBefore);
  }

  now(): number {
    const wall = this.#clock.now();
    const monotonic = this.#clock.monotonic();
    const step = wall - this.#wall - (monotonic - this.#monotonic);
    this.#wall = wall;
    this.#monotonic = monotonic;
    if (Math.abs(step) > STEP_MS) {
      this.#heldUntil = monotonic + HOLD_AFTER_STEP_MS;
      this.onStep?.(step);
    }
    this.#last = Math.max(this.#last, Math.floor(wall));
    return this.#last;
  }

  /** Whether time may end things now. */
  get mayExpire(): boolean {
    return this.#clock.monotonic() >= this.#heldUntil;
  }
}
