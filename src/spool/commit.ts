/**
 * commit-job: an agent ends a job that it has.
 *
 *  1  (a success) write `result.json`: synced under a temporary name, then renamed
 *  2  write the status to `job.json`, in the same way
 *  3  sync the folder of the job
 *  4  rename the folder to its place
 *  5  sync both parents
 *  6  release the lock
 *
 * From the end of 1 on the job has been run, whatever happens to the agent. An agent whose folder is gone was taken for
 * dead, and commits nothing: the job is somebody else's.
 */
import { join } from 'node:path';
import type { Actor } from './actor.ts';
import type { Envelope, Lifecycle } from './envelope.ts';
import { changeStatus, logChange, syncEvents, writeResult } from './job-folder.ts';
import { jobFiles, PLACE_OF } from './layout.ts';
import { releaseLock } from './lock.ts';
import { isMissing, isTaken } from './plain-files.ts';
import type { SpoolStatus } from './states.ts';

/** `stale` is only for jobs of a brain, which decides about them. */
export type EndStatus = Extract<SpoolStatus, 'succeeded' | 'failed' | 'killed' | 'stale'>;

/** `lost`: the job is not this agent's any more. `blocked`: the place for it is missing, or has something else of its name. */
export type CommitOutcome = 'committed' | 'lost' | 'blocked';

/** Step 1. */
export async function saveResult(
  agent: Actor,
  { runtime, lifecycle }: Envelope,
  result: unknown,
): Promise<'saved' | 'lost'> {
  return unlessLost(async () => {
    if (lifecycle.token !== undefined) await syncEvents(agent.spool.env.disk, runtime.folder);
    await writeResult(agent.spool.env.disk, runtime.folder, result);
    return 'saved' as const;
  });
}

export async function commitJob(
  agent: Actor,
  envelope: Envelope,
  to: EndStatus,
  changes: Partial<Lifecycle> = {},
): Promise<CommitOutcome> {
  const { runtime, lifecycle } = envelope;
  const { disk } = agent.spool.env;
  const outcome = await unlessLost(async () => {
    if (to !== 'succeeded') await setResultAside(agent, runtime.folder);
    const next = await changeStatus(agent, runtime.folder, lifecycle, { from: 'in-progress', to, changes });
    await disk.syncFolder(runtime.folder);
    return place(agent, envelope, next);
  });
  if (outcome !== 'blocked') await releaseLock(agent, runtime.lock);
  return outcome;
}

/** Steps 4 and 5. */
async function place(agent: Actor, { runtime }: Envelope, lifecycle: Lifecycle): Promise<CommitOutcome> {
  const { env, paths, syncs } = agent.spool;
  const target = paths.places[PLACE_OF[lifecycle.status as EndStatus]];
  try {
    await env.disk.rename(runtime.folder, join(target, runtime.name));
  } catch (error) {
    // Somebody may have removed the place: the job is still this agent's, and nobody else may move it.
    const isKept = isMissing(error) && (await env.disk.lstat(runtime.folder)) !== undefined;
    if (!isTaken(error) && !isKept) throw error;
    const why = isTaken(error) ? 'its name is taken there' : 'there is no such folder';
    agent.logger.critical(`a job cannot be moved to its place: ${why}`, {
      job_id: runtime.name,
      to: target,
    });
    return 'blocked';
  }
  await syncs.sync(agent.jobs, target);
  logChange(agent, runtime.name, lifecycle, 'in-progress');
  return 'committed';
}

/** What a failed attempt has left must not look like the result of a job that was run to its end. */
async function setResultAside({ spool }: Actor, folder: string): Promise<void> {
  const { result, failedResult } = jobFiles(folder);
  if (await spool.env.disk.lstat(result)) await spool.env.disk.rename(result, failedResult);
}

async function unlessLost<T>(run: () => Promise<T>): Promise<T | 'lost'> {
  try {
    return await run();
  } catch (error) {
    if (isMissing(error)) return 'lost';
    throw error;
  }
}
