/** Polls for a value that nothing announces. */
import type { Env } from './env/env.ts';
import { pause } from './pause.ts';

export interface PollTimes {
  readonly everyMs: number;
  readonly atMostMs: number;
}

/** Calls `look` at once and then every `everyMs` until it returns a value; undefined if it has not after `atMostMs`. */
export async function poll<T>(
  { clock, timers }: Pick<Env, 'clock' | 'timers'>,
  { everyMs, atMostMs }: PollTimes,
  look: () => T | undefined | Promise<T | undefined>,
): Promise<T | undefined> {
  const until = clock.monotonic() + atMostMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    const leftMs = until - clock.monotonic();
    if (leftMs <= 0) return undefined;
    await pause(timers, Math.min(everyMs, leftMs));
  }
}
