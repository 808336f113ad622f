/**
 * Drops a job into a spool: its folder is made in `tmp/`, synced, and renamed into `incoming/`. It is the spool's when the
 * parents are synced too.
 */
import { join } from 'node:path';
import { OrchdError } from '../model/errors.ts';
import { type Actor, textOf } from './actor.ts';
import { freshLifecycle, type Lifecycle } from './envelope.ts';
import { jobFiles, nameProblem, type PublicPlace } from './layout.ts';
import { isTaken, orRemoved, writeNew } from './plain-files.ts';
import type { SpoolStatus } from './states.ts';

export interface NewSpoolJob {
  readonly name: string;
  readonly prompt: unknown;
  /** What `job.json` is to say besides the status; without it none is written. */
  readonly lifecycle?: Partial<Lifecycle>;
}

export async function submitJob(actor: Actor, { prompt, ...job }: NewSpoolJob): Promise<void> {
  await placeNewJob(actor, { ...job, promptText: JSON.stringify(prompt) }, 'incoming');
}

export interface NewJobFolder extends Omit<NewSpoolJob, 'prompt'> {
  /** The text of `prompt.json`. */
  readonly promptText: string;
}

/** The statuses of new folders, by the place that they are put to: a job that waits, or a token that must never run. */
const STATUS_IN = { incoming: 'queued', killed: 'killed' } as const satisfies Partial<
  Record<PublicPlace, SpoolStatus>
>;

export type NewPlace = keyof typeof STATUS_IN;

/** Puts a new job to a place. Throws JOB_CONFLICT where a job of its name lies there. */
export const placeNewJob = (actor: Actor, job: NewJobFolder, place: NewPlace): Promise<void> =>
  actor.spool.syncs.during(() => drop(actor, job, place));

async function drop(
  actor: Actor,
  { name, promptText, lifecycle }: NewJobFolder,
  place: NewPlace,
): Promise<void> {
  const { env, paths, settings, syncs } = actor.spool;
  const problem = nameProblem(name);
  if (problem !== undefined)
    throw new OrchdError('INVALID_PARAMS', `"${name}" is no name of a job: ${problem}`);
  const made = actor.temporary('job');
  const target = paths.places[place];
  await env.disk.makeNewFolder(made);
  await orRemoved(env.disk, made, async () => {
    const files = jobFiles(made);
    await writeNew(env.disk, files.prompt, `${promptText}\n`, { isSynced: true });
    if (lifecycle) {
      const job = { ...freshLifecycle(settings.maxRetries), ...lifecycle, status: STATUS_IN[place] };
      await writeNew(env.disk, files.job, textOf(job), { isSynced: true });
    }
    await env.disk.syncFolder(made);
    await env.disk.rename(made, join(target, name)).catch((error: unknown) => {
      if (isTaken(error)) throw new OrchdError('JOB_CONFLICT', `there is a job "${name}" in this spool`);
      throw error;
    });
  });
  await syncs.sync(join(made, '..'), target);
}
