/** A clock, with its timers, that a test moves. */
import type { Cancel } from '../../src/kit/env/env.ts';

/** A wall clock that stands still until the test moves it, a little ahead of the real one. */
export class HandClock {
  /** Set by a test to step the wall clock alone: timers and the monotonic clock do not follow. */
  now = Math.ceil(Date.now() / 1000) * 1000 + 500;
  #elapsed = 0;
  #timers = new Set<{ readonly at: number; readonly run: () => void }>();

  readonly env = {
    clock: { now: () => this.now, monotonic: () => this.#elapsed },
    timers: {
      after: (ms: number, run: () => void): Cancel => {
        const timer = { at: this.#elapsed + ms, run };
        this.#timers.add(timer);
        return () => void this.#timers.delete(timer);
      },
      soon: (run: () => void) => void setImmediate(run),
    },
    random: { next: () => 0, hex: () => '00' },
  };

  pass(ms: number): void {
    this.now += ms;
    this.#elapsed += ms;
    for (const timer of [...this.#timers])
      if (timer.at <= this.#elapsed && this.#timers.delete(timer)) timer.run();
  }
}
