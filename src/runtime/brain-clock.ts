/**
 * Brain time, which all records carry: the wall clock, read once per batch, but not believed at once
 * (docs/decisions/0023).
 *
 * T1  Brain time follows the wall clock forward. Where the wall clock is less than a minute behind, brain time stands
 *     still until it has caught up.
 * T2  A step of the wall clock by more than a minute is in doubt until it has stood for a minute. Until then brain time
 *     goes on by the monotonic clock: a step that is taken back in this time changes nothing.
 * T3  A step that has stood is adopted, forward or back. Only a restart or an adopted step makes brain time smaller; the
 *     engine is told, and moves back what it has set itself.
 * T4  While a step is in doubt, and for a minute after it was adopted, nothing expires and nothing is released because of
 *     an instant. A clock that never stands still must not stop time for good, so doubt ends after MAX_DOUBT_MS.
 * T5  What cannot be undone waits longer: after brain time has jumped ahead by more than a day, at a start too, nothing is
 *     purged until a brain has run for an hour (`purgeRestMs` in the brain's record, which restarts do not shorten). A
 *     clock that is wrong at a boot is set right by then.
 */
import type { Clock } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';

const STEP_MS = 60_000;
const STAND_MS = 60_000;
const NO_EXPIRY_AFTER_STEP_MS = 60_000;
const MAX_DOUBT_MS = 5 * 60_000;
const LONG_JUMP_MS = 24 * 3_600_000;
/** How long a brain must have run before it purges again, after brain time has jumped ahead. */
export const PURGE_REST_MS = 3_600_000;

/** One reading of both clocks. */
interface Reading {
  readonly wall: number;
  readonly monotonic: number;
}

/** A wall clock that has left brain time: since when, and how it looked when it last jumped. */
interface Doubt {
  readonly since: number;
  readonly first: Reading;
}

export class BrainClock {
  readonly #clock: Clock;
  /** The last brain time that was given out, as a fraction. */
  #last: number;
  /** Added to the wall clock of this machine to get that of the store. */
  #skewMs = 0;
  /** The last reading. */
  #read: Reading;
  #doubt: Doubt | undefined;
  #noExpiryUntil = Number.NEGATIVE_INFINITY;
  #hasJumped = false;
  /** Called when a step is seen, with its size. */
  onStep: ((byMs: number) => void) | undefined;
  /** Called when a step was adopted: brain time was set forward or, with a negative number, back by so much. */
  onAdopted: ((byMs: number) => void) | undefined;
  #setBackMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#read = this.#look();
    this.#last = this.#read.wall;
  }

  now(): number {
    const before = this.#read;
    const read = this.#look();
    this.#read = read;
    const elapsed = read.monotonic - before.monotonic;
    // Brain time that stands still waits for a slower wall clock: the time that passes meanwhile is not missing.
    const expected = Math.max(this.#last, Math.min(this.#last + elapsed, before.wall + elapsed));
    const stepMs = read.wall - (this.#doubt ? this.#last + elapsed : expected);
    if (Math.abs(stepMs) <= STEP_MS) {
      this.#doubt = undefined;
      this.#last = Math.max(this.#last, read.wall);
    } else {
      this.#last += elapsed;
      this.#judge(read, stepMs);
    }
    return Math.floor(this.#last);
  }

  /**
   * Continues after `committed`, the instant of the last commit. `skewMs`: the store's clock minus ours. A wall clock
   * that is behind that instant is in doubt: it is wrong now, or was wrong then.
   */
  startAt(committed: number, skewMs = 0): void {
    this.#skewMs = skewMs;
    this.#read = this.#look();
    this.#last = Math.max(this.#read.wall, committed);
    const aheadMs = this.#last - this.#read.wall;
    if (aheadMs > STEP_MS) this.#judge(this.#read, -aheadMs);
    else if (committed > 0) this.#jumped(this.#last - committed);
  }

  /**
   * Whether leases and deadlines may expire now. Reads the clock, so that a step is noticed even if nothing else read
   * it.
   */
  mayExpire(): boolean {
    this.now();
    return !this.#isInDoubt() && this.#read.monotonic >= this.#noExpiryUntil;
  }

  /** How far brain time is ahead of a wall clock that is in doubt: an instant that a caller named may not be reached yet. */
  get aheadMs(): number {
    return this.#isInDoubt() ? Math.max(0, this.#last - this.#read.wall) : 0;
  }

  /** A doubt that lasts too long is over: brain time goes on by the monotonic clock, and is believed (T4). */
  #isInDoubt(): boolean {
    return this.#doubt !== undefined && this.#read.monotonic - this.#doubt.since <= MAX_DOUBT_MS;
  }

  /** By how much brain time was set back since the last call. */
  takeSetBack(): number {
    const byMs = this.#setBackMs;
    this.#setBackMs = 0;
    return byMs;
  }

  /** Whether brain time has jumped ahead by more than a day since the last call (T5). */
  takeJump(): boolean {
    const hasJumped = this.#hasJumped;
    this.#hasJumped = false;
    return hasJumped;
  }

  #jumped(byMs: number): void {
    if (byMs > LONG_JUMP_MS) this.#hasJumped = true;
  }

  #look(): Reading {
    return { wall: this.#clock.now() + this.#skewMs, monotonic: this.#clock.monotonic() };
  }

  /** Adopts a wall clock that differs from brain time by `stepMs` once it has gone on evenly for long enough. */
  #judge(read: Reading, stepMs: number): void {
    const doubt = this.#doubt;
    const first = doubt?.first;
    if (!first || Math.abs(read.wall - first.wall - (read.monotonic - first.monotonic)) > STEP_MS) {
      this.#doubt = { since: doubt?.since ?? read.monotonic, first: read };
      this.onStep?.(stepMs);
      return;
    }
    if (read.monotonic - first.monotonic < STAND_MS) return;
    this.#doubt = undefined;
    this.#last = read.wall;
    this.#noExpiryUntil = read.monotonic + NO_EXPIRY_AFTER_STEP_MS;
    this.#jumped(stepMs);
    if (stepMs < 0) this.#setBackMs -= Math.round(stepMs);
    this.onAdopted?.(stepMs);
  }
}

/** Logs the steps of the wall clock. */
export function reportSteps(clock: BrainClock, logger: Logger | undefined): void {
  clock.onStep = (byMs) =>
    logger?.warn('the wall clock was stepped; nothing expires until it has stood for a minute', {
      duration_ms: Math.round(byMs),
    });
  clock.onAdopted = (byMs) =>
    logger?.warn('brain time follows the stepped wall clock', { duration_ms: Math.round(byMs) });
}
