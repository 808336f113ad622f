/**
 * Tells a folder from a copy of it. A marker file is made once and never written again; `folder.json` says which file
 * that was, by its inode and the time of its birth. A copy of both files has a marker that was born elsewhere. So does a
 * folder that was moved to another file system or restored from a backup: for what is in it, that is the same.
 *
 * What runs on this machine may belong to the original, so a copy is refused unless somebody says that it is one.
 */
import { basename, join, relative } from 'node:path';
import { OrchdError } from '../model/errors.ts';
import type { Disk, DiskStat, Env } from './env/env.ts';
import { readRecord } from './record-file.ts';

export const FOLDER_FILES = { marker: 'folder.id', record: 'folder.json' } as const;

interface FolderRecord {
  /** The identity of the marker file. */
  readonly marker: string;
}

const isFolderRecord = (value: unknown): value is FolderRecord =>
  typeof (value as Partial<FolderRecord> | null)?.marker === 'string';

const readFolderRecord = (disk: Disk, folder: string): Promise<FolderRecord | undefined> =>
  readRecord(disk, join(folder, FOLDER_FILES.record), isFolderRecord);

/**
 * Why a folder is refused. `copied`: its marker is not the one that its record names. `linked`: its marker is in another
 * folder too, so one of the two was made of hard links, and whoever writes to one writes to both.
 */
export type FolderProblem = 'copied' | 'linked';

/** Finds out, without writing, whether the folder is refused; a folder that no process has claimed yet is not. */
export async function folderProblem(disk: Disk, folder: string): Promise<FolderProblem | undefined> {
  const marker = await disk.stat(join(folder, FOLDER_FILES.marker));
  if (isLinked(marker)) return 'linked';
  // A simulated disk has no identities, and no copies.
  if ((await disk.stat(folder))?.identity === undefined) return undefined;
  const known = await readFolderRecord(disk, folder);
  return known && marker?.identity !== known.marker ? 'copied' : undefined;
}

/** Makes the folder known as the one at this place. Throws FOLDER_COPIED or FOLDER_LINKED for a copy. */
export async function claimFolder(env: Env, folder: string): Promise<void> {
  const { disk } = env;
  const problem = await folderProblem(disk, folder);
  if (problem) throw problem === 'copied' ? folderCopied(folder) : folderLinked(folder, FOLDER_FILES.marker);
  if ((await disk.stat(folder))?.identity === undefined) return;
  if (!(await readFolderRecord(disk, folder))) await writeFolderRecord(env, folder);
}

export const folderCopied = (folder: string): OrchdError =>
  new OrchdError('FOLDER_COPIED', `"${folder}" is a copy of another folder, or was moved`);

const folderLinked = (folder: string, file: string): OrchdError =>
  new OrchdError('FOLDER_LINKED', `"${folder}" shares files with another folder: "${file}" is a hard link`);

const isLinked = (stat: DiskStat | undefined): boolean => !stat?.isFolder && (stat?.links ?? 1) > 1;

/**
 * Throws FOLDER_LINKED where the marker of the folder is a hard link, or a file that lies in one of `written`. Called
 * before anything is written: for a copy made of hard links, the original would change with it.
 */
export async function refuseHardLinks(disk: Disk, folder: string, written: readonly string[]): Promise<void> {
  if (isLinked(await disk.stat(join(folder, FOLDER_FILES.marker))))
    throw folderLinked(folder, FOLDER_FILES.marker);
  for (const path of written) {
    for (const name of await disk.list(path)) {
      const file = join(path, name);
      if (isLinked(await disk.stat(file))) throw folderLinked(folder, relative(folder, file));
    }
  }
}

/**
 * Makes a copy known as a folder of its own. Called when nothing of the original is left in it that this process could
 * act on: a crash before that leaves a copy that is refused.
 */
export async function claimCopy(env: Env, folder: string): Promise<void> {
  if ((await env.disk.stat(folder))?.identity === undefined) return;
  await env.disk.remove(join(folder, FOLDER_FILES.marker));
  await writeFolderRecord(env, folder);
}

/**
 * Moves what a copy has of the original's running work into a folder of its own, where people can look at it and nothing
 * of ours does. `paths` are moved in this order.
 */
export async function setAside(
  { disk, random }: Env,
  folder: string,
  paths: readonly string[],
): Promise<void> {
  const copied = join(folder, `copied-${random.hex(4)}`);
  await disk.makeFolder(copied);
  for (const path of paths) if (await disk.stat(path)) await disk.rename(path, join(copied, basename(path)));
  await disk.syncFolder(folder);
}

async function writeFolderRecord({ disk, random }: Env, folder: string): Promise<void> {
  const path = join(folder, FOLDER_FILES.marker);
  // `create` keeps a file that is there already: two processes that come at once have the same one.
  if (!(await disk.stat(path))) await writeInPlace(disk, path, random.hex(8));
  await disk.syncFolder(folder);
  const record: FolderRecord = { marker: (await disk.stat(path))?.identity ?? '' };
  await writeInPlace(disk, join(folder, FOLDER_FILES.record), JSON.stringify(record));
}

/** Without a temporary file, of which a crash would leave one: half a record counts as none, and is written again. */
async function writeInPlace(disk: Disk, path: string, text: string): Promise<void> {
  const file = await disk.open(path, 'create');
  try {
    await file.write(0, Buffer.from(`${text}\n`));
    await file.datasync();
  } finally {
    await file.close();
  }
}
