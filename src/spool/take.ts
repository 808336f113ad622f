/**
 * Takes a job from where it lies into a folder of the actor's own, so that nobody else changes it meanwhile, and puts it
 * to another place. Every change of a job but those of its agent is made so: by watchdogs, managers and people.
 *
 *  1  rename the folder to `tmp/<actor>/<place it was in>/`: of several actors one succeeds; sync both parents
 *  2  read it there, decide, write the status and sync the folder
 *  3  rename it to the place of its status; sync both parents
 *
 * A crash leaves the job with a dead actor; `restingStatus` says where it belongs by the place that it was taken from and
 * its status.
 */
import { dirname, join } from 'node:path';
import type { Actor } from './actor.ts';
import type { Lifecycle } from './envelope.ts';
import { changeStatus, hasResult, logChange, readLifecycle } from './job-folder.ts';
import { jobFiles, PLACE_OF, type Place } from './layout.ts';
import { isMissing, isTaken } from './plain-files.ts';
import type { SpoolStatus } from './states.ts';

/** A job that the actor has taken. */
export interface TakenJob {
  readonly name: string;
  readonly from: Place;
  readonly folder: string;
  readonly lifecycle: Lifecycle;
  readonly hasResult: boolean;
  readonly isKillOrdered: boolean;
}

export type Taken =
  | { readonly is: 'taken'; readonly job: TakenJob }
  /** Somebody else was faster. */
  | { readonly is: 'gone' }
  /** Its `job.json` is not to be touched; the job was put back. */
  | { readonly is: 'refused'; readonly why: string };

/** `path` is the folder of a job; `from` the place that it lies in, or was taken from by an actor that is dead. */
export async function takeJob(actor: Actor, path: string, from: Place, name: string): Promise<Taken> {
  const { disk } = actor.spool.env;
  const entry = await disk.lstat(path);
  if (!entry) return { is: 'gone' };
  if (entry.kind !== 'folder') return { is: 'refused', why: 'it is no folder' };
  const before = await readLifecycle(actor.spool, path);
  if (before.is !== 'read') return refusal(before);
  const folder = join(await actor.takenFrom(from), name);
  try {
    await disk.rename(path, folder);
  } catch (error) {
    if (isMissing(error) || isTaken(error)) return { is: 'gone' };
    throw error;
  }
  const read = await readLifecycle(actor.spool, folder);
  if (read.is !== 'read') {
    await disk.rename(folder, path);
    return refusal(read);
  }
  // Before the status is changed: a power cut must not bring the job back with a status that is not that of its place.
  await actor.spool.syncs.sync(dirname(folder));
  await disk.syncFolder(dirname(path));
  const job = {
    name,
    from,
    folder,
    lifecycle: read.lifecycle,
    hasResult: await hasResult(disk, folder),
    isKillOrdered: (await disk.lstat(jobFiles(folder).kill)) !== undefined,
  };
  return { is: 'taken', job };
}

const refusal = (read: { readonly why: string } | { readonly version: string }): Taken => ({
  is: 'refused',
  why: 'why' in read ? read.why : `job.json has the schema-version "${read.version}", which is not known`,
});

/** A job in the folder of an agent has been claimed; the agent may have died before it could write that down. */
const isClaimOpen = (from: Place, status: SpoolStatus): boolean =>
  from === 'in-progress' && status === 'queued';

/** The status with which a job rests whose actor died while it had the job. */
export function restingStatus({
  from,
  status,
  hasResult,
}: {
  readonly from: Place;
  readonly status: SpoolStatus;
  readonly hasResult: boolean;
}): Exclude<SpoolStatus, 'in-progress'> {
  const isInProgress = status === 'in-progress' || isClaimOpen(from, status);
  // A job with a `result.json` was run to its end, and is not run again.
  if (hasResult && (isInProgress || status === 'stale')) return 'succeeded';
  return isInProgress ? 'stale' : (status as Exclude<SpoolStatus, 'in-progress'>);
}

/** Puts a job to the place of a status, which it gets where it has another. `blocked`: its name is taken there. */
export async function putJob(
  actor: Actor,
  job: TakenJob,
  to: Exclude<SpoolStatus, 'in-progress'>,
  changes: Partial<Lifecycle> = {},
): Promise<'put' | 'blocked' | 'lost'> {
  const { env, paths } = actor.spool;
  const target = paths.places[PLACE_OF[to]];
  try {
    await removeTemporaries(actor, job.folder);
    const before = await closedClaim(actor, job);
    const from = before.status;
    const lifecycle =
      from === to ? before : await changeStatus(actor, job.folder, before, { from, to, changes });
    await env.disk.syncFolder(job.folder);
    if (!(await moved(actor, job, target))) return 'blocked';
    if (from !== to) logChange(actor, job.name, lifecycle, from);
    return 'put';
  } catch (error) {
    if (isMissing(error)) return 'lost';
    throw error;
  }
}

/** Writes down what the agent could not. */
async function closedClaim(actor: Actor, { from, folder, lifecycle }: TakenJob): Promise<Lifecycle> {
  if (!isClaimOpen(from, lifecycle.status)) return lifecycle;
  const changes = { attempt: lifecycle.attempt + 1 };
  return changeStatus(actor, folder, lifecycle, { from: 'queued', to: 'in-progress', changes });
}

async function moved(actor: Actor, job: TakenJob, target: string): Promise<boolean> {
  const { env, syncs } = actor.spool;
  try {
    await env.disk.rename(job.folder, join(target, job.name));
  } catch (error) {
    if (!isTaken(error)) throw error;
    actor.logger.critical('a job cannot be moved to its place: its name is taken there', {
      job_id: job.name,
      to: target,
    });
    return false;
  }
  await syncs.sync(dirname(job.folder), target);
  return true;
}

/** What a crash has left of files that were being written. */
async function removeTemporaries({ spool }: Actor, folder: string): Promise<void> {
  const { temporaryJob, temporaryResult } = jobFiles(folder);
  for (const path of [temporaryJob, temporaryResult])
    if (await spool.env.disk.lstat(path)) await spool.env.disk.remove(path);
}
