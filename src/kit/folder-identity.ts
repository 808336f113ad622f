/**
 * Tells a folder from a copy of it. A marker file is made once and never written again; `folder.json` says which file
 * that was, by its inode and the time of its birth. A copy of both files has a marker that was born elsewhere. So does a
 * folder that was moved to another file system or restored from a backup: for what is in it, that is the same.
 *
 * What runs on this machine may belong to the original, so a copy is refused unless somebody says that it is one.
 */
import { join } from 'node:path';
import { OrchdError } from '../model/errors.ts';
import type { Disk, Env } from './env/env.ts';
import { readRecord } from './record-file.ts';

export const FOLDER_FILES = { marker: 'folder.id', record: 'folder.json' } as const;

interface FolderRecord {
  /** The identity of the marker file. */
  readonly marker: string;
}

const isFolderRecord = (value: unknown): value is FolderRecord =>
  typeof (value as Partial<FolderRecord> | null)?.marker === 'string';

/**
 * Makes the folder known as the one at this place. Throws FOLDER_COPIED for a copy, unless `isCopy` says that it is
 * meant to be used as one.
 */
export async function claimFolder(env: Env, folder: string, isCopy: boolean): Promise<void> {
  const { disk, random } = env;
  // A simulated disk has no identities, and no copies.
  if ((await disk.stat(folder))?.identity === undefined) return;
  const marker = join(folder, FOLDER_FILES.marker);
  const record = join(folder, FOLDER_FILES.record);
  const known = await readRecord(disk, record, isFolderRecord);
  const identity = (await disk.stat(marker))?.identity;
  if (known && !isCopy) {
    if (identity === known.marker) return;
    throw new OrchdError('FOLDER_COPIED', `"${folder}" is a copy of another folder, or was moved`);
  }
  if (isCopy) await disk.remove(marker);
  // `create` keeps a file that is there already: two processes that come at once have the same one.
  await writeInPlace(disk, marker, random.hex(8));
  await disk.syncFolder(folder);
  const made = (await disk.stat(marker))?.identity ?? '';
  await writeInPlace(disk, record, JSON.stringify({ marker: made } satisfies FolderRecord));
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
