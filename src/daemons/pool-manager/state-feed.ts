/** The version of what can be seen, and those who wait for the next one. */
import type { Timers } from '../../kit/env/env.ts';

/** Whoever comes when as many wait already is answered at once. */
const MAX_WAITERS = 256;
export const MAX_WAIT_MS = 30_000;

/** Versions begin with the time, so that they grow over a restart too: nothing changes every second for long. */
const BEGINNING_MS = Date.UTC(2020, 0, 1);

export class StateFeed {
  readonly #timers: Timers;
  readonly #waiters = new Set<() => void>();
  #version: number;
  #closed = false;

  constructor(timers: Timers, now: number) {
    this.#timers = timers;
    this.#version = Math.max(1, Math.floor((now - BEGINNING_MS) / 1000));
  }

  get version(): number {
    return this.#version;
  }

  changed(): void {
    this.#version++;
    this.#wake();
  }

  /** Settles when the version is another one, or when the time is over. */
  async past(version: number | undefined, waitMs: number): Promise<void> {
    const full = this.#waiters.size >= MAX_WAITERS;
    if (version !== this.#version || waitMs <= 0 || full || this.#closed) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel();
        this.#waiters.delete(done);
        resolve();
      };
      const cancel = this.#timers.after(Math.min(waitMs, MAX_WAIT_MS), done);
      this.#waiters.add(done);
    });
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  #wake(): void {
    for (const done of [...this.#waiters]) done();
  }
}
