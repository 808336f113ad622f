/** A promise that is waited for only so long. */
import type { Timers } from './env/env.ts';

/** What the promise settles with, or `late` after `ms`. What the promise stands for goes on either way. */
export function within<T, const L>(timers: Timers, ms: number, promise: Promise<T>, late: L): Promise<T | L> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(ms, () => resolve(late));
    promise.then(resolve, reject).finally(cancel);
  });
}
