/**
 * Removes the folders of a brain that are no longer needed: acknowledged jobs after `keepAckedMs`, in which their events
 * stay readable, and tombstones after a day, when no offer can be under way any more. The time is counted by this
 * process, so that no wrong clock removes anything. What an earlier process had acknowledged is reported as not
 * acknowledged, and its brain acknowledges it again. Also erases what was said in a job.
 */
import { join } from 'node:path';
import type { Clock } from '../../kit/env/env.ts';
import type { Actor } from '../../spool/actor.ts';
import type { Lifecycle } from '../../spool/envelope.ts';
import { readLifecycle, rewriteLifecycle } from '../../spool/job-folder.ts';
import { jobFiles } from '../../spool/layout.ts';
import { jobsNamed, type LocatedJob, locateJobs } from '../../spool/locate.ts';
import { isMissing, namesIn, removeTree, replaceSynced } from '../../spool/plain-files.ts';
import type { Spool } from '../../spool/spool.ts';
import { putJob, takeJob } from '../../spool/take.ts';
import type { BrainActor } from './brain-actor.ts';
import { type BrainLifecycle, isEndPlace, namePrefix } from './token-state.ts';

const KEEP_TOMBSTONE_MS = 24 * 3_600_000;
/** The text of an erased `prompt.json` and `result.json`. */
const ERASED = 'null\n';

export interface EndedFoldersOptions {
  readonly clock: Clock;
  readonly spool: Spool;
  readonly actor: BrainActor;
  readonly keepAckedMs: number;
}

export class EndedFolders {
  readonly #options: EndedFoldersOptions;
  /** When each folder is removed, by the monotonic clock; by its name. */
  readonly #removeAt = new Map<string, number>();
  readonly #owners = new Set<string>();

  constructor(options: EndedFoldersOptions) {
    this.#options = options;
  }

  /** Only the folders of brains that have commanded this backend are looked through. */
  noteOwner(owner: string): void {
    this.#owners.add(owner);
  }

  isAcknowledged(name: string): boolean {
    return this.#removeAt.has(name);
  }

  acknowledged(name: string): void {
    if (!this.#removeAt.has(name)) this.#removeIn(name, this.#options.keepAckedMs);
  }

  /** Removes what is due, and looks for tombstones that an earlier process has left. */
  async sweep(): Promise<void> {
    const { spool, clock } = this.#options;
    for (const owner of this.#owners)
      for await (const job of jobsNamed(spool, namePrefix(owner)))
        if (isEndPlace(job.place) && job.actor === undefined && !this.#removeAt.has(job.name))
          await this.#noteTombstone(job);
    for (const [name, at] of this.#removeAt) if (at <= clock.monotonic()) await this.#remove(name);
  }

  /**
   * Erases what was said in an ended job: of its folder only a tombstone is left, so that the token is still refused. A
   * crash leaves a job with the mark of a tombstone, whose rest is erased by the next sweep.
   */
  async erase(job: LocatedJob): Promise<void> {
    await this.#options.actor.change((actor) => eraseJob(actor, job));
    this.#removeIn(job.name, KEEP_TOMBSTONE_MS);
  }

  async #noteTombstone(job: LocatedJob): Promise<void> {
    const { spool } = this.#options;
    const read = await readLifecycle(spool, job.folder);
    if (read.is !== 'read' || (read.lifecycle as BrainLifecycle).tombstone !== true) return;
    if (!(await isErased(spool, job.folder))) return this.erase(job);
    this.#removeIn(job.name, KEEP_TOMBSTONE_MS);
  }

  #removeIn(name: string, ms: number): void {
    this.#removeAt.set(name, this.#options.clock.monotonic() + ms);
  }

  /** Renames the folder away before it is removed, so that nobody sees half of it. */
  async #remove(name: string): Promise<void> {
    const { spool, actor } = this.#options;
    const { disk } = spool.env;
    const job = (await locateJobs(spool, [name])).get(name);
    if (job?.actor !== undefined) return;
    if (job) {
      const aside = (await actor.use()).temporary('old-job');
      try {
        await disk.rename(job.folder, aside);
        await removeTree(disk, aside);
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
    }
    this.#removeAt.delete(name);
  }
}

async function eraseJob(actor: Actor, job: LocatedJob): Promise<void> {
  const taken = await takeJob(actor, job.folder, job.place, job.name);
  if (taken.is !== 'taken') throw new Error(`the folder of ${job.name} was moved meanwhile`);
  const { folder, lifecycle } = taken.job;
  const { reason: _, ...rest } = lifecycle as BrainLifecycle;
  await rewriteLifecycle(actor, folder, { ...rest, tombstone: true } as Lifecycle);
  await eraseFiles(actor.spool, folder);
  await putJob(actor, taken.job, lifecycle.status as Exclude<Lifecycle['status'], 'in-progress'>);
}

/** What a tombstone keeps; `job.json` has no text of the job in it. */
const keptFiles = (folder: string): string[] => {
  const { job, prompt, result } = jobFiles(folder);
  return [job, prompt, result];
};

async function eraseFiles({ env: { disk } }: Spool, folder: string): Promise<void> {
  const { prompt, result } = jobFiles(folder);
  const kept = keptFiles(folder);
  for (const name of await namesIn(disk, folder))
    if (!kept.includes(join(folder, name))) await removeTree(disk, join(folder, name));
  for (const path of [prompt, result])
    if (await disk.lstat(path)) await replaceSynced(disk, path, `${path}.tmp`, ERASED);
  await disk.syncFolder(folder);
}

async function isErased({ env: { disk } }: Spool, folder: string): Promise<boolean> {
  const { prompt, result } = jobFiles(folder);
  const kept = keptFiles(folder);
  for (const path of [prompt, result])
    if (((await disk.lstat(path))?.size ?? ERASED.length) !== ERASED.length) return false;
  return (await namesIn(disk, folder)).every((name) => kept.includes(join(folder, name)));
}
