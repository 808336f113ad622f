/** Checks a whole spool, without changing anything: for people, and after every crash of the tests. */
import { join, relative } from 'node:path';
import type { DiskEntry } from '../kit/env/env.ts';
import { checkJob } from './check-job.ts';
import type { Finding, FindingCode } from './findings.ts';
import {
  jobOfLock,
  lockPath,
  OWNER_FILE,
  PLACE_FOLDERS,
  type Place,
  PUBLIC_PLACES,
  type PublicPlace,
  spoolFolders,
  takenFolder,
  workspacePaths,
} from './layout.ts';
import { judgeOwner, readEvidence, type Verdict } from './owner.ts';
import { badFileReason, isMissing } from './plain-files.ts';
import type { Spool } from './spool.ts';

export async function checkSpool(spool: Spool): Promise<Finding[]> {
  const check = new SpoolCheck(spool);
  await check.run();
  return check.found.map((finding) => ({ ...finding, path: relative(spool.paths.root, finding.path) }));
}

class SpoolCheck {
  readonly found: Finding[] = [];
  readonly #spool: Spool;
  /** Where each job was seen first. */
  readonly #seen = new Map<string, string>();

  constructor(spool: Spool) {
    this.#spool = spool;
  }

  async run(): Promise<void> {
    const { env, paths } = this.#spool;
    const root = await env.disk.lstat(paths.root);
    for (const folder of spoolFolders(paths)) {
      const stat = await env.disk.lstat(folder);
      if (stat?.kind !== 'folder') this.#report('FOLDER_MISSING', folder, 'it is no folder');
      else if (stat.device !== root?.device)
        this.#report('OTHER_FILE_SYSTEM', folder, 'it lies on another file system than the spool');
    }
    for (const place of PUBLIC_PLACES) await this.#checkPlace(place);
    await this.#checkAgents();
    await this.#checkActors();
  }

  #report(code: FindingCode, path: string, why: string): void {
    this.found.push({ code, path, why });
  }

  async #checkPlace(place: PublicPlace): Promise<void> {
    const folder = this.#spool.paths.places[place];
    for await (const entry of this.#entries(folder)) {
      const path = join(folder, entry.name);
      const job = place === 'incoming' ? jobOfLock(entry.name) : undefined;
      if (job !== undefined && entry.kind === 'folder') await this.#checkLock(job, path);
      else await this.#checkJob(entry, path, place, false);
    }
  }

  async #checkJob(entry: DiskEntry, path: string, place: Place, isInHand: boolean): Promise<void> {
    if (!entry.isText) return this.#report('BAD_NAME', path, 'it is not UTF-8');
    if (entry.kind !== 'folder') return this.#report('NOT_A_FOLDER', path, `it is a ${entry.kind}`);
    const other = this.#seen.get(entry.name);
    if (other !== undefined)
      this.#report('TWIN', path, `a job of this name lies in ${relative(this.#spool.paths.root, other)}`);
    else this.#seen.set(entry.name, path);
    const found = await checkJob(this.#spool, path, entry.name, { place, isInHand }).catch((error: unknown) =>
      unreadable(path, error),
    );
    this.found.push(...found);
  }

  async #checkLock(job: string, path: string): Promise<void> {
    const evidence = await readEvidence(this.#spool.env.disk, path, join(path, OWNER_FILE));
    if (evidence && judgeOwner(evidence, this.#spool.host) === 'dead')
      this.#report('DEAD_LOCK', path, `the process that has locked "${job}" is gone`);
  }

  async #checkAgents(): Promise<void> {
    const folder = this.#spool.paths.places['in-progress'];
    for await (const { name, kind, isText } of this.#entries(folder)) {
      const path = join(folder, name);
      if (kind !== 'folder' || !isText) this.#report('NOT_A_FOLDER', path, `it is a ${kind}`);
      else await this.#checkAgent(name, path);
    }
  }

  async #checkAgent(agent: string, folder: string): Promise<void> {
    const life = await this.#lifeOf(agent);
    for await (const entry of this.#entries(folder)) {
      const path = join(folder, entry.name);
      await this.#checkJob(entry, path, 'in-progress', life !== 'dead');
      if (entry.kind !== 'folder') continue;
      if (life === 'dead') this.#report('ABANDONED_JOB', path, 'its agent is gone');
      else if (!(await this.#spool.env.disk.lstat(lockPath(this.#spool.paths, entry.name))))
        this.#report('MISSING_LOCK', path, `${PLACE_FOLDERS.incoming}/${entry.name}.lock is missing`);
    }
  }

  /** What is in `tmp/` and has no owner is being made by somebody. */
  async #checkActors(): Promise<void> {
    const { paths } = this.#spool;
    for await (const { name, kind, isText } of this.#entries(paths.tmp)) {
      if (kind !== 'folder' || !isText) continue;
      const workspace = workspacePaths(paths, name);
      const life = await this.#lifeOf(name);
      if (life === 'dead') this.#report('DEAD_ACTOR', workspace.folder, 'its process is gone');
      for (const place of Object.keys(PLACE_FOLDERS) as Place[])
        await this.#checkTaken(takenFolder(workspace, place), place, life);
    }
  }

  async #checkTaken(folder: string, place: Place, life: Verdict | undefined): Promise<void> {
    for await (const entry of this.#entries(folder)) {
      const path = join(folder, entry.name);
      await this.#checkJob(entry, path, place, true);
      if (life === 'dead') this.#report('ABANDONED_JOB', path, 'the process that was moving it is gone');
    }
  }

  async #lifeOf(actor: string): Promise<Verdict | undefined> {
    const { folder, owner } = workspacePaths(this.#spool.paths, actor);
    const evidence = await readEvidence(this.#spool.env.disk, folder, owner);
    return evidence && judgeOwner(evidence, this.#spool.host);
  }

  /** A folder that is missing has nothing in it; whether it should exist is checked elsewhere. */
  async *#entries(folder: string): AsyncGenerator<DiskEntry> {
    try {
      for await (const piece of this.#spool.env.disk.entries(folder)) yield* piece;
    } catch (error) {
      if (!isMissing(error)) this.found.push(...unreadable(folder, error));
    }
  }
}

/** Errors of the disk itself are thrown. */
function unreadable(path: string, error: unknown): Finding[] {
  const why = badFileReason(error);
  if (why === undefined) throw error;
  return [{ code: 'UNREADABLE', path, why: `it ${why}` }];
}
