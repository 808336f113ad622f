/** Ends everything of a worker: with SIGTERM first, and after its grace with SIGKILL, again and again. */
import { pause } from '../../kit/pause.ts';
import type { ProcessIdentity } from '../../kit/process/identity.ts';
import { isAnyAlive, type Mark, signalMarked } from '../../kit/process/marked.ts';
import type { WorkerParts } from './worker-parts.ts';

/** Between two looks at whether a signal has ended the processes. */
const EXIT_POLL_MS = 50;
const KILL_AGAIN_MS = 1000;

/** Settles when nothing of it lives any more, or with false when it is not wanted any more. */
export async function endProcesses(
  { env, times }: Pick<WorkerParts, 'env' | 'times'>,
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
      nextAt = now + (name === 'SIGTERM' ? times.graceMs : KILL_AGAIN_MS);
      name = 'SIGKILL';
    }
    await pause(env.timers, EXIT_POLL_MS);
  }
  return isWanted();
}
