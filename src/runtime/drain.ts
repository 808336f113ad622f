/** Drains a brain before it stops. */
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { within } from '../kit/within.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Loop } from './loop.ts';

const POLL_INTERVAL_MS = 10;

/**
 * Pauses the start of new work, then waits up to `atMostMs` for work whose result would be lost with this process.
 * Executors that keep results are left running.
 */
export async function drain(
  env: Env,
  loop: Loop,
  backends: BackendDirectory,
  atMostMs: number,
): Promise<void> {
  if (loop.failure) return;
  const end = env.clock.monotonic() + atMostMs;
  const left = (): number => Math.max(POLL_INTERVAL_MS, end - env.clock.monotonic());
  // Limited, because a full or failed disk makes nothing durable. Nothing is lost: what is not durable was not
  // acknowledged.
  await atMost(env, left(), loop.ask({ type: 'pause' }));
  while (hasLosableWork(loop, backends) && env.clock.monotonic() < end && !loop.failure) {
    await pause(env.timers, POLL_INTERVAL_MS);
  }
  await atMost(env, left(), loop.durable(loop.engine.state.seq));
}

/** Waits until the promise settles, but at most `ms`. */
const atMost = (env: Env, ms: number, promise: Promise<unknown>): Promise<unknown> =>
  within(
    env.timers,
    ms,
    promise.catch(() => undefined),
    undefined,
  );

function hasLosableWork({ engine }: Loop, backends: BackendDirectory): boolean {
  for (const { open } of engine.state.open.values()) {
    const backend = open && backends.get(open.backend);
    // No outcome will arrive for an attempt in state unknown, so waiting for it is useless.
    if (backend && !backend.info.keepsResults && open?.state !== 'unknown') return true;
  }
  return false;
}
