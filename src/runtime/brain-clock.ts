/**
 * Brain time: the instant that records carry. It is the wall clock, read once per batch and never earlier than
 * what was committed before. A wall clock that is a little behind is waited for; one that is far behind is left
 * alone, and brain time goes on by itself. When the wall clock is stepped by more than a minute nothing expires
 * for a while: leases and deadlines were set on the other side of the step.
 */
import type { Clock } from '../kit/env/env.ts';

const STEP_MS = 60_000;
const HOLD_AFTER_STEP_MS = 60_000;

export class BrainClock {
  readonly #clock: Clock;
  #last: number;
  /** What the wall clock of this machine is behind that of the store. */
  #skewMs = 0;
  #wall: number;
  #monotonic: number;
  #heldUntil = Number.NEGATIVE_INFINITY;
  /** Called with the size of a step. */
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
      this.#heldUntil = monotonic + HOLD_AFTER_STEP_MS;
      this.onStep?.(step);
    }
    const behind = this.#last - wall;
    if (behind <= 0) this.#last = wall;
    else if (behind > STEP_MS) this.#last += elapsed;
    return Math.floor(this.#last);
  }

  /** Recovered records carry instants up to this one, by the clock of the store. */
  startAt(committed: number, skewMs = 0): void {
    this.#skewMs = skewMs;
    this.#wall += skewMs;
    this.#last = Math.max(this.#last + skewMs, committed);
  }

  /** Whether time may end things now. Reads the clock: a step that nobody has seen yet counts too. */
  mayExpire(): boolean {
    this.now();
    return this.#clock.monotonic() >= this.#heldUntil;
  }
}
