/**
 * Finds jobs by their names wherever they are, also in the hands of an actor that is moving them.
 *
 * F1  The places are looked at in the order in which a job goes through them, so that one that goes on meanwhile is found
 *     at a later place. Only a job that goes back, from an agent that has not begun it to `incoming/`, can be missed.
 */
import { join } from 'node:path';
import { isActorId, jobOfLock, type Place, type PublicPlace, takenFolder, workspacePaths } from './layout.ts';
import { foldersIn, namesIn } from './plain-files.ts';
import type { FoundJob } from './reads.ts';
import type { Spool } from './spool.ts';

export interface LocatedJob extends FoundJob {
  /** The actor that has taken it from its place, to change it. */
  readonly actor?: string;
}

const ENDS = ['succeeded', 'failed', 'killed', 'stale'] as const satisfies readonly PublicPlace[];

export async function locateJobs(
  spool: Spool,
  names: Iterable<string>,
): Promise<ReadonlyMap<string, LocatedJob>> {
  const missing = new Set(names);
  const found = new Map<string, LocatedJob>();
  const note = (job: LocatedJob): void => {
    if (missing.delete(job.name)) found.set(job.name, job);
  };
  await noteIn(spool, 'incoming', missing, note);
  if (missing.size > 0) for await (const job of jobsInHand(spool)) note(job);
  for (const place of ENDS) await noteIn(spool, place, missing, note);
  return found;
}

async function noteIn(
  { env, paths }: Spool,
  place: PublicPlace,
  names: ReadonlySet<string>,
  note: (job: LocatedJob) => void,
): Promise<void> {
  for (const name of [...names]) {
    const folder = join(paths.places[place], name);
    if (await env.disk.lstat(folder)) note({ name, place, folder });
  }
}

/** The jobs that agents have, and then those that actors have taken. */
async function* jobsInHand({ env: { disk }, paths }: Spool): AsyncGenerator<LocatedJob> {
  const agents = paths.places['in-progress'];
  for (const agent of await foldersIn(disk, agents))
    for (const name of await namesIn(disk, join(agents, agent)))
      yield { name, place: 'in-progress', folder: join(agents, agent, name), agent };
  for (const actor of await foldersIn(disk, paths.tmp)) {
    if (!isActorId(actor)) continue;
    const workspace = workspacePaths(paths, actor);
    const there = await foldersIn(disk, workspace.folder);
    for (const place of Object.keys(paths.places) as Place[]) {
      if (!there.includes(place)) continue;
      const folder = takenFolder(workspace, place);
      for (const name of await namesIn(disk, folder))
        yield { name, place, folder: join(folder, name), actor };
    }
  }
}

/** All jobs whose names begin with a text. */
export async function* jobsNamed(spool: Spool, prefix: string): AsyncGenerator<LocatedJob> {
  const isMeant = (name: string): boolean => name.startsWith(prefix) && jobOfLock(name) === undefined;
  for (const place of ['incoming', ...ENDS] as const) {
    const parent = spool.paths.places[place];
    for (const name of await namesIn(spool.env.disk, parent))
      if (isMeant(name)) yield { name, place, folder: join(parent, name) };
    if (place === 'incoming') for await (const job of jobsInHand(spool)) if (isMeant(job.name)) yield job;
  }
}
