/** Again and again, until it is cancelled; what one run throws does not stop the next. */
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
