/** Wakes a reader when a folder may have changed: on the file system's notification, and by polling besides. */
import fs from 'node:fs';
import type { Timers } from './env/env.ts';

/** Polling beside a working watch: its notifications can get lost. */
const WATCHED_POLL_MS = 250;
/** Polling where the folder cannot be watched. */
const UNWATCHED_POLL_MS = 40;

export class FolderWatch {
  readonly #timers: Timers;
  #watcher: fs.FSWatcher | undefined;
  /** A notification has arrived since the last wait ended. */
  #hasChanged = false;
  #onChange: (() => void) | undefined;

  /** `concerns` tells which files matter, by their names; a change without a name always does. */
  constructor(timers: Timers, folder: string, concerns: (name: string) => boolean = () => true) {
    this.#timers = timers;
    try {
      this.#watcher = fs.watch(folder, { persistent: false }, (_, name) => {
        if (name === null || concerns(name)) this.#changed();
      });
      this.#watcher.on('error', () => this.close());
    } catch {
      // The folder cannot be watched (the system's limit on watches is reached, say): poll more often instead.
      this.#watcher = undefined;
    }
  }

  /** The file system tells about changes; false where only polling finds them. */
  get isWatching(): boolean {
    return this.#watcher !== undefined;
  }

  /**
   * `changed` when a notification has arrived since the last wait ended, or the signal is aborted; `later` when the poll
   * interval is over.
   */
  async wait(signal: AbortSignal): Promise<'changed' | 'later'> {
    if (this.#hasChanged || signal.aborted) {
      this.#hasChanged = false;
      return 'changed';
    }
    const { promise, resolve } = Promise.withResolvers<'changed' | 'later'>();
    const wake = (): void => resolve('changed');
    const pollMs = this.#watcher ? WATCHED_POLL_MS : UNWATCHED_POLL_MS;
    const cancel = this.#timers.after(pollMs, () => resolve('later'));
    this.#onChange = wake;
    signal.addEventListener('abort', wake);
    const why = await promise;
    cancel();
    signal.removeEventListener('abort', wake);
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
