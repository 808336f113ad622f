/**
 * Long computations in slices: a generator yields wherever it may be interrupted, and the event loop serves others
 * between two slices.
 */
import type { Timers } from './env/env.ts';

export type Sliced<T> = Generator<void, T, void>;

/**
 * Runs each slice in a turn of its own: no other sliced work of the process has a slice in the same turn, however much
 * of it there is.
 */
export async function inSlices<T>(work: Sliced<T>, timers: Timers): Promise<T> {
  const turns = ownTurns(timers);
  for (;;) {
    await turns.next();
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** Runs all slices in the present turn: for values that are known to be small. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
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

const turnsByTimers = new WeakMap<Timers, OwnTurns>();

/** The turns that all long work on this event loop shares. */
export function ownTurns(timers: Timers): OwnTurns {
  let turns = turnsByTimers.get(timers);
  if (!turns) {
    turns = new OwnTurns(timers);
    turnsByTimers.set(timers, turns);
  }
  return turns;
}

/** Bodies up to this size are parsed, checked and written in one turn: each of these steps takes a few milliseconds. */
export const ONE_TURN_BYTES = 64 * 1024;

/** Whether a value may be worked on in one turn, or has to be in slices because of the JSON text it was parsed from. */
export type BodySize = 'small' | 'large';

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
