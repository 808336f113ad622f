/** Waits for a duration that an AbortSignal can cut short. */
import type { Timers } from './env/env.ts';

/** Resolves after `ms`, or as soon as the signal is aborted. It never rejects, so the caller must check the signal. */
export function pause(timers: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = timers.after(ms, done);
    signal?.addEventListener('abort', done);
  });
}
