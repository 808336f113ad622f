/** Deletes jobs from the history that ended longer ago than `historyMs`. */
import type { Store } from '../core/ports/store.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';

/** Jobs deleted in one call of the store, which is blocked meanwhile. */
const BATCH_JOBS = 5000;

export class Purge {
  readonly #loop: Loop;
  readonly #store: Store;
  readonly #clock: BrainClock;
  readonly #historyMs: number;
  #running = false;

  constructor(loop: Loop, store: Store, clock: BrainClock, historyMs: number) {
    this.#loop = loop;
    this.#store = store;
    this.#clock = clock;
    this.#historyMs = historyMs;
  }

  /** Only one purge runs at a time: a second would delete jobs that only the first has planned for. */
  async run(): Promise<void> {
    if (this.#running || !this.#clock.mayPurge()) return;
    this.#running = true;
    try {
      await this.#deleteEndedBefore(this.#clock.now() - this.#historyMs);
    } finally {
      this.#running = false;
    }
  }

  async #deleteEndedBefore(endedBefore: number): Promise<void> {
    while (!this.#loop.failure) {
      const plan = await this.#store.planPurge(endedBefore, BATCH_JOBS);
      // The attempt floor must be durable before the attempts below it are deleted, so that no attempt number is used
      // again.
      await this.#loop.ask({ type: 'purge', attemptFloor: plan.attemptFloor });
      await this.#store.purge(endedBefore, BATCH_JOBS);
      if (plan.jobs < BATCH_JOBS) return;
    }
  }
}
