/** A time limit on waiting for a promise. */
import type { Timers } from './env/env.ts';

/** Settles like the promise, or resolves to `late` after `ms`. The work behind the promise is not cancelled. */
export function within<T, const L>(timers: Timers, ms: number, promise: Promise<T>, late: L): Promise<T | L> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(ms, () => resolve(late));
    promise.then(resolve, reject).finally(cancel);
  });
}
