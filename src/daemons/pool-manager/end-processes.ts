/** Ends all processes of a worker: SIGTERM first, after the grace period SIGKILL, repeated until none is left. */
import { pause } from '../../kit/pause.ts';
import type { ProcessIdentity } from '../../kit/process/identity.ts';
import { isAnyAlive, type Mark, signalMarked } from '../../kit/process/marked.ts';
import type { WorkerContext } from './worker-context.ts';

/** How often the processes are checked to be alive. */
const EXIT_POLL_MS = 50;
const SIGKILL_INTERVAL_MS = 1000;

/** Settles with true when no process is alive, and with false when `isWanted` returns false before. */
export async function endProcesses(
  { env, times }: Pick<WorkerContext, 'env' | 'times'>,
  mark: Mark,
  leader: ProcessIdentity | undefined,
  isWanted: () => boolean,
): Promise<boolean> {
  let nextAt = env.clock.monotonic();
  let name: 'SIGTERM' | 'SIGKILL' = 'SIGTERM';
  while (isWanted() && isAnyAlive(mark, leader)) {
    const now = env.clock.monotonic();
    if (now >= nextAt) {
      signalMarked(mark, leader, name);
      nextAt = now + (name === 'SIGTERM' ? times.graceMs : SIGKILL_INTERVAL_MS);
      name = 'SIGKILL';
    }
    await pause(env.timers, EXIT_POLL_MS);
  }
  return isWanted();
}
