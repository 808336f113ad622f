/** The end of a brain in good order. */
import type { Backend } from '../core/ports.ts';
import type { Env } from '../kit/env/env.ts';
import type { Loop } from './loop.ts';

const LOOK_MS = 10;

/**
 * Starts nothing new, and waits a while for what would be lost with this process; executors that keep results are
 * left to their work.
 */
export async function drain(
  env: Env,
  loop: Loop,
  backends: ReadonlyMap<string, Backend>,
  atMostMs: number,
): Promise<void> {
  if (loop.failure) return;
  await loop.ask({ type: 'pause' }).catch(ignore);
  const end = env.clock.monotonic() + atMostMs;
  while (holdsFragileWork(loop, backends) && env.clock.monotonic() < end && !loop.failure) {
    await new Promise<void>((resolve) => {
      env.timers.after(LOOK_MS, resolve);
    });
  }
  await loop.durable(loop.engine.state.seq).catch(ignore);
}

function holdsFragileWork({ engine }: Loop, backends: ReadonlyMap<string, Backend>): boolean {
  for (const { open } of engine.state.open.values()) {
    const backend = open && backends.get(open.backend);
    if (backend && !backend.info.keepsResults) return true;
  }
  return false;
}

function ignore(): void {}
