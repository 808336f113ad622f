/**
 * Long computations in slices: a generator yields wherever it may be interrupted, and the event loop serves others
 * between two slices.
 */
import type { Timers } from './env/env.ts';

export type Sliced<T> = Generator<void, T, void>;

/** Runs each slice in a turn of its own; the first one at once. */
export async function inSlices<T>(work: Sliced<T>, timers: Timers): Promise<T> {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    await nextTurn(timers);
  }
}

/** Resolves in the next turn of the event loop. */
export const nextTurn = (timers: Timers): Promise<void> => new Promise((resolve) => timers.soon(resolve));

/** Gives out turns of the event loop: each caller gets one that no other caller has got, in the order of the calls. */
export class OwnTurns {
  readonly #timers: Timers;
  readonly #waiting: (() => void)[] = [];
  #isTaken = false;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** Resolves at once if nobody has got the present turn. */
  async next(): Promise<void> {
    if (this.#isTaken) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#take();
  }

  #take(): void {
    this.#isTaken = true;
    this.#timers.soon(() => {
      this.#isTaken = false;
      const first = this.#waiting.shift();
      if (!first) return;
      this.#take();
      first();
    });
  }
}

/** Bodies up to this size are parsed, checked and written in one turn: each of these steps takes a few milliseconds. */
export const ONE_TURN_BYTES = 64 * 1024;

/** Counts work, in units of about a microsecond, and says when a slice is full. */
export class SliceMeter {
  readonly #most: number;
  #used = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Whether the slice is full now; the next one begins empty. */
  spend(units: number): boolean {
    this.#used += units;
    if (this.#used < this.#most) return false;
    this.#used = 0;
    return true;
  }
}
