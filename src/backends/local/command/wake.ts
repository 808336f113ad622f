/** Tells a reader that a folder may have changed: at once where the system says so, and now and then anyway. */
import fs from 'node:fs';
import type { Env } from '../../../kit/env/env.ts';

/** The system's word can get lost. */
const WATCHED_MS = 250;
/** Where it gives none. */
const UNWATCHED_MS = 40;

export class Wake {
  readonly #env: Env;
  #watcher: fs.FSWatcher | undefined;
  #rang = false;
  #ring: (() => void) | undefined;

  constructor(env: Env, folder: string) {
    this.#env = env;
    try {
      this.#watcher = fs.watch(folder, { persistent: false }, () => this.#changed());
      this.#watcher.on('error', () => this.close());
    } catch {
      // No more watches to be had: looking often does as well.
      this.#watcher = undefined;
    }
  }

  /** Returns after a change since the last wait began, after a while, or when the signal says so. */
  async wait(signal: AbortSignal): Promise<'changed' | 'later'> {
    if (this.#rang || signal.aborted) {
      this.#rang = false;
      return 'changed';
    }
    let cancel = (): void => undefined;
    let stop = (): void => undefined;
    const why = await new Promise<'changed' | 'later'>((resolve) => {
      stop = () => resolve('changed');
      this.#ring = stop;
      cancel = this.#env.timers.after(this.#watcher ? WATCHED_MS : UNWATCHED_MS, () => resolve('later'));
      signal.addEventListener('abort', stop);
    });
    cancel();
    signal.removeEventListener('abort', stop);
    this.#ring = undefined;
    this.#rang = false;
    return why;
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #changed(): void {
    this.#rang = true;
    this.#ring?.();
  }
}
