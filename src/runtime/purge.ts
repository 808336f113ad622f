/** Forgets jobs that ended long ago. */
import type { Store } from '../core/ports/store.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';

/** At a time: what is removed at once holds up the store. */
const BATCH = 5000;

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

  /** Of two at once, one would remove what only the other has looked through. */
  async run(): Promise<void> {
    if (this.#running || !this.#clock.mayExpire()) return;
    this.#running = true;
    try {
      await this.#forget(this.#clock.now() - this.#historyMs);
    } finally {
      this.#running = false;
    }
  }

  async #forget(endedBefore: number): Promise<void> {
    while (!this.#loop.failure) {
      const plan = await this.#store.planPurge(endedBefore, BATCH);
      // The floor is durable before the attempts that it stands for are forgotten.
      await this.#loop.ask({ type: 'purge', attemptFloor: plan.attemptFloor });
      await this.#store.purge(endedBefore, BATCH);
      if (plan.jobs < BATCH) return;
    }
  }
}
