/** Tells a reader that a folder may have changed: at once where the system says so, and now and then anyway. */
import fs from 'node:fs';
import type { Timers } from './env/env.ts';

/** What the system says can get lost. */
const WATCHED_POLL_MS = 250;
/** Where the system says nothing. */
const UNWATCHED_POLL_MS = 40;

export class FolderWatch {
  readonly #timers: Timers;
  #watcher: fs.FSWatcher | undefined;
  /** Since the last wait ended. */
  #hasChanged = false;
  #onChange: (() => void) | undefined;

  constructor(timers: Timers, folder: string) {
    this.#timers = timers;
    try {
      this.#watcher = fs.watch(folder, { persistent: false }, () => this.#changed());
      this.#watcher.on('error', () => this.close());
    } catch {
      // The system has no more watches to give: looking often does as well.
      this.#watcher = undefined;
    }
  }

  /** Settles after a change since the last wait began, after a while, or when the signal is aborted. */
  async wait(signal: AbortSignal): Promise<'changed' | 'later'> {
    if (this.#hasChanged || signal.aborted) {
      this.#hasChanged = false;
      return 'changed';
    }
    const { promise, resolve } = Promise.withResolvers<'changed' | 'later'>();
    const stop = (): void => resolve('changed');
    const pollMs = this.#watcher ? WATCHED_POLL_MS : UNWATCHED_POLL_MS;
    const cancel = this.#timers.after(pollMs, () => resolve('later'));
    this.#onChange = stop;
    signal.addEventListener('abort', stop);
    const why = await promise;
    cancel();
    signal.removeEventListener('abort', stop);
    this.#onChange = undefined;
    this.#hasChanged = false;
    return why;
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #changed(): void {
    this.#hasChanged = true;
    this.#onChange?.();
  }
}
