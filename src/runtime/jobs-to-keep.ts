/**
 * Which old jobs a purge passes over. A run that waits for a person, or is paused, still needs the results of its calls
 * however long ago these have ended; and whoever looks at a run finds its calls for as long as the run itself.
 */
import type { JobBelow, KeptJob } from '../core/ports/store.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { isTerminal } from '../model/states.ts';

/**
 * The jobs below one that lives: their time counts from now on, so that a purge looks at each again after as long as
 * jobs are kept, and not every time. And those below a root that has ended since `endedBefore`: their time counts from
 * its end.
 */
export function jobsToKeep(
  jobs: readonly JobBelow[],
  endedBefore: number,
  now: number,
  inMemory: ReadonlyMap<string, Pick<JobEntry, 'job'>>,
): KeptJob[] {
  const keptFrom = (uid: string): number | undefined => {
    const job = inMemory.get(uid)?.job;
    return job && !isTerminal(job.state) ? now : job?.endedAt;
  };
  return jobs
    .map(({ uid, ancestors, rootEndedAt = 0 }) => ({
      uid,
      from: Math.max(rootEndedAt, ...ancestors.map((ancestor) => keptFrom(ancestor) ?? 0)),
    }))
    .filter(({ from }) => from >= endedBefore);
}
