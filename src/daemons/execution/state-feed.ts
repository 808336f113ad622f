/** The version of the pool's state, and the long polls that wait for the next one. */
import type { Timers } from '../../kit/env/env.ts';

/** Maximum number of long polls that wait at a time; further ones are answered at once. */
const MAX_WAITERS = 256;
export const MAX_WAIT_MS = 30_000;

export class StateFeed {
  readonly #timers: Timers;
  readonly #waiters = new Set<() => void>();
  readonly #onVersion: (version: number) => void;
  #version = 0;
  #closed = false;

  constructor(timers: Timers, onVersion: (version: number) => void) {
    this.#timers = timers;
    this.#onVersion = onVersion;
  }

  /** Sets the first version, above all versions of an earlier manager with the same registry: versions only grow. */
  startAt(version: number): void {
    this.#version = version;
  }

  get version(): number {
    return this.#version;
  }

  changed(): void {
    this.#version++;
    this.#onVersion(this.#version);
    this.#wake();
  }

  /** Settles when the version differs from `version`, or after `waitMs`. */
  async waitForChange(version: number | undefined, waitMs: number): Promise<void> {
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
