/** Calls `run` every `ms` until cancelled. The next call is scheduled first, so a run that throws does not end it. */
import type { Cancel, Timers } from './env/env.ts';

export function every(timers: Timers, ms: number, run: () => void): Cancel {
  let cancel: Cancel = () => undefined;
  const again = (): void => {
    cancel = timers.after(ms, () => {
      again();
      run();
    });
  };
  again();
  return () => cancel();
}
