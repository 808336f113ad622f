/** Looks at the jobs of a spool, for people. Others may move jobs meanwhile: what is seen was so a moment ago. */
import { join } from 'node:path';
import { unmovableBecause } from './check-job.ts';
import type { Lifecycle, ReadLifecycle } from './envelope.ts';
import { type HistoryLine, historyOf } from './history.ts';
import { readLifecycle } from './job-folder.ts';
import { claimOrder, jobFiles, jobOfLock, nameProblem, type Place, PUBLIC_PLACES } from './layout.ts';
import { lookAt, refusalOf } from './load.ts';
import { entriesIn, foldersIn, readPlainText } from './plain-files.ts';
import type { Spool } from './spool.ts';

/** Where a job lies. */
export interface FoundJob {
  readonly name: string;
  readonly place: Place;
  readonly folder: string;
  /** The agent that has it in `in-progress/`. */
  readonly agent?: string;
  /** Its name is not UTF-8: `name` looks like it, and nothing is found by it. */
  readonly isNameless?: true;
}

export interface SeenJob extends FoundJob {
  readonly lifecycle: Lifecycle | undefined;
  /** Why the job is not run as it is. */
  readonly problem?: string;
}

/** All jobs of these places: those that wait in the order in which they are claimed, the others by name. */
export async function* findJobs(spool: Spool, places: readonly Place[]): AsyncGenerator<FoundJob> {
  const { env, paths } = spool;
  for (const place of places) {
    const folder = paths.places[place];
    if (place !== 'in-progress') yield* jobsIn(spool, place, folder);
    else
      for (const agent of (await foldersIn(env.disk, folder)).sort())
        yield* jobsIn(spool, place, join(folder, agent), agent);
  }
}

async function* jobsIn(
  { env }: Spool,
  place: Place,
  folder: string,
  agent?: string,
): AsyncGenerator<FoundJob> {
  const entries = await entriesIn(env.disk, folder);
  const named = new Map(entries.map((entry) => [entry.name, entry]));
  const keyOf = place === 'incoming' ? claimOrder : (name: string): string => name;
  for (const [name, { isText }] of [...named].sort(([a], [b]) => (keyOf(a) < keyOf(b) ? -1 : 1)))
    if (place !== 'incoming' || jobOfLock(name) === undefined)
      yield {
        name,
        place,
        folder: join(folder, name),
        ...(agent !== undefined && { agent }),
        ...(!isText && { isNameless: true as const }),
      };
}

/** The job of this name; undefined where there is none. */
export async function findJob(spool: Spool, name: string): Promise<FoundJob | undefined> {
  if (nameProblem(name) !== undefined) return undefined;
  const { env, paths } = spool;
  for (const place of PUBLIC_PLACES) {
    const folder = join(paths.places[place], name);
    if (await env.disk.lstat(folder)) return { name, place, folder };
  }
  for (const agent of await foldersIn(env.disk, paths.places['in-progress'])) {
    const folder = join(paths.places['in-progress'], agent, name);
    if (await env.disk.lstat(folder)) return { name, place: 'in-progress', folder, agent };
  }
  return undefined;
}

export async function seeJob(spool: Spool, job: FoundJob): Promise<SeenJob> {
  if (job.isNameless) return { ...job, lifecycle: undefined, problem: 'its name is not UTF-8' };
  const stat = await spool.env.disk.lstat(job.folder);
  if (stat && stat.kind !== 'folder') return { ...job, lifecycle: undefined, problem: 'it is no folder' };
  const read = await readLifecycle(spool, job.folder);
  const problem = (await folderProblem(spool, job)) ?? statusProblem(job, read);
  if (read.is === 'read')
    return { ...job, lifecycle: read.lifecycle, ...(problem !== undefined && { problem }) };
  const why = read.is === 'unreadable' ? read.why : `its schema-version is "${read.version}"`;
  return { ...job, lifecycle: undefined, problem: problem ?? why };
}

/** Why a waiting job is not run, although nothing is wrong with its files. */
const statusProblem = ({ place }: FoundJob, read: ReadLifecycle): string | undefined =>
  place === 'incoming' ? refusalOf(read) : undefined;

async function folderProblem(spool: Spool, { folder, place, name }: FoundJob): Promise<string | undefined> {
  const { env } = spool;
  const wrong = nameProblem(name);
  if (wrong !== undefined) return `its name cannot be used: ${wrong}`;
  const unmovable = await unmovableBecause(spool, folder);
  if (unmovable !== undefined) return unmovable;
  if (place === 'incoming') {
    const look = await lookAt(spool, name);
    return look.is === 'refused' ? look.why : undefined;
  }
  const prompt = await env.disk.lstat(jobFiles(folder).prompt);
  return prompt?.kind === 'file' ? undefined : 'there is no prompt.json';
}

/** The longest file that is read whole. */
const MAX_SHOWN_BYTES = 16 * 1024 * 1024;

/** The text of a file in the folder of a job; undefined where it cannot be read. */
export async function readJobFile(
  { env }: Spool,
  { folder }: FoundJob,
  file: 'prompt' | 'result',
): Promise<string | undefined> {
  const read = await readPlainText(env.disk, jobFiles(folder)[file], MAX_SHOWN_BYTES);
  return read.is === 'text' ? read.text : undefined;
}

export async function readHistory(spool: Spool, job: SeenJob): Promise<HistoryLine[]> {
  const read = await readPlainText(spool.env.disk, jobFiles(job.folder).history, MAX_SHOWN_BYTES);
  return read.is === 'text' && job.lifecycle ? historyOf(read.text, job.lifecycle) : [];
}
