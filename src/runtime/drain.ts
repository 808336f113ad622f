/** The end of a brain in good order. */
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { within } from '../kit/within.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Loop } from './loop.ts';

const POLL_MS = 10;

/**
 * Starts nothing new, and waits a while for what would be lost with this process; executors that keep results are
 * left to their work.
 */
export async function drain(
  env: Env,
  loop: Loop,
  backends: BackendDirectory,
  atMostMs: number,
): Promise<void> {
  if (loop.failure) return;
  const end = env.clock.monotonic() + atMostMs;
  const left = (): number => Math.max(POLL_MS, end - env.clock.monotonic());
  // A disk that is full, or gone, makes nothing durable; what it has not taken was not acknowledged either.
  await atMost(env, left(), loop.ask({ type: 'pause' }));
  while (holdsFragileWork(loop, backends) && env.clock.monotonic() < end && !loop.failure) {
    await pause(env.timers, POLL_MS);
  }
  await atMost(env, left(), loop.durable(loop.engine.state.seq));
}

/** Waits for a promise, however it ends, but not for ever. */
const atMost = (env: Env, ms: number, promise: Promise<unknown>): Promise<unknown> =>
  within(
    env.timers,
    ms,
    promise.catch(() => undefined),
    undefined,
  );

function holdsFragileWork({ engine }: Loop, backends: BackendDirectory): boolean {
  for (const { open } of engine.state.open.values()) {
    const backend = open && backends.get(open.backend);
    // Of an unknown one nothing more will be heard.
    if (backend && !backend.info.keepsResults && open?.state !== 'unknown') return true;
  }
  return false;
}
