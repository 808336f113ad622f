/**
 * Files in folders that anybody may have filled: only plain files are read, no link is followed, and no more is read than
 * expected.
 */
import { join } from 'node:path';
import { type Disk, type DiskEntry, diskErrorCode } from '../kit/env/env.ts';

/** Longer than any `job.json` or `owner.json`. */
const MAX_RECORD_BYTES = 1024 * 1024;

export type PlainText =
  | { readonly is: 'text'; readonly text: string }
  | { readonly is: 'absent' }
  /** Not a plain file, longer than allowed, not UTF-8, or not readable by this user. */
  | { readonly is: 'bad'; readonly why: string };

/** What an open can fail with for reasons that lie in the file, and not in the disk. */
const BAD_FILE: Readonly<Record<string, string>> = {
  ELOOP: 'is a link',
  EINVAL: 'is no plain file',
  ENXIO: 'is no plain file',
  EISDIR: 'is a folder',
  EACCES: 'may not be read',
  EPERM: 'may not be read',
};

/** Why a call has failed that somebody has to correct in the folder; undefined for errors of the disk itself. */
export const badFileReason = (error: unknown): string | undefined => {
  const code = diskErrorCode(error);
  return code !== undefined && Object.hasOwn(BAD_FILE, code) ? BAD_FILE[code] : undefined;
};

const UNMOVABLE: Readonly<Record<string, string>> = {
  EACCES: 'may not be moved',
  EPERM: 'may not be moved',
  EXDEV: 'lies on another file system',
  EBUSY: 'lies on another file system',
};

/** Why a rename has failed for reasons that lie in the folder that was to be moved; undefined for all others. */
export const unmovableReason = (error: unknown): string | undefined => {
  const code = diskErrorCode(error);
  return code !== undefined && Object.hasOwn(UNMOVABLE, code) ? UNMOVABLE[code] : undefined;
};

/** Errors of the disk itself are thrown. */
export async function readPlainText(
  disk: Disk,
  path: string,
  maxBytes = MAX_RECORD_BYTES,
): Promise<PlainText> {
  try {
    const file = await disk.open(path, 'plain');
    try {
      const size = await file.size();
      if (size > maxBytes) return { is: 'bad', why: `is longer than ${maxBytes} bytes` };
      const bytes = await file.read(0, size);
      const text = bytes.toString();
      return Buffer.from(text).equals(bytes) ? { is: 'text', text } : { is: 'bad', why: 'is not UTF-8' };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return { is: 'absent' };
    const why = badFileReason(error);
    if (why !== undefined) return { is: 'bad', why };
    throw error;
  }
}

/** The record in a file; undefined without the file, or where it holds no such record. */
export async function readPlainRecord<T>(
  disk: Disk,
  path: string,
  isRecord: (value: unknown) => value is T,
): Promise<T | undefined> {
  const read = await readPlainText(disk, path);
  if (read.is !== 'text') return undefined;
  try {
    const value: unknown = JSON.parse(read.text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Writes a new file at a name where a crash, or somebody else, may have left something. */
export async function writeNew(
  disk: Disk,
  path: string,
  text: string,
  { isSynced }: { readonly isSynced: boolean },
): Promise<void> {
  const file = await openNew(disk, path);
  try {
    await file.write(0, Buffer.from(text));
    if (isSynced) await file.datasync();
  } finally {
    await file.close();
  }
}

async function openNew(disk: Disk, path: string) {
  try {
    return await disk.open(path, 'exclusive');
  } catch (error) {
    if (diskErrorCode(error) !== 'EEXIST') throw error;
    await removeTree(disk, path);
    return disk.open(path, 'exclusive');
  }
}

/** Replaces a file by way of a synced temporary one in the same folder; its name is durable with the next sync of that. */
export async function replaceSynced(
  disk: Disk,
  path: string,
  temporary: string,
  text: string,
): Promise<void> {
  await writeNew(disk, temporary, text, { isSynced: true });
  await disk.rename(temporary, path);
}

/** Gives a file another text; false where its folder is gone. Not synced, and half written for a while. */
export async function rewritten(disk: Disk, path: string, text: string): Promise<boolean> {
  const file = await disk.open(path, 'append').catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (!file) return false;
  try {
    await file.truncate(0);
    await file.write(0, Buffer.from(text));
    return true;
  } finally {
    await file.close();
  }
}

/** Adds a line to a file, which is made where it does not exist. Not synced. */
export async function appendLine(disk: Disk, path: string, line: string): Promise<void> {
  const file = await disk.open(path, 'append');
  try {
    const size = await file.size();
    // A power cut can have left half a line.
    const isWhole = size === 0 || (await file.read(size - 1, 1)).toString() === '\n';
    await file.write(size, Buffer.from(isWhole ? `${line}\n` : `\n${line}\n`));
  } finally {
    await file.close();
  }
}

/** Removes a file, or a folder with everything in it; follows no link, and finds it no error that it is gone. */
export async function removeTree(disk: Disk, path: string): Promise<void> {
  if ((await disk.lstat(path))?.kind !== 'folder') return disk.remove(path);
  for (const name of await namesIn(disk, path)) await removeTree(disk, join(path, name));
  await disk.removeFolder(path);
}

/** Fills a folder, or removes it: tries that a full disk refuses must not add up. */
export async function orRemoved<T>(disk: Disk, folder: string, fill: () => Promise<T>): Promise<T> {
  try {
    return await fill();
  } catch (error) {
    await removeTree(disk, folder).catch(() => undefined);
    throw error;
  }
}

/** What is in a folder; nothing where there is no such folder. */
export async function entriesIn(disk: Disk, folder: string): Promise<DiskEntry[]> {
  const entries: DiskEntry[] = [];
  try {
    for await (const piece of disk.entries(folder)) entries.push(...piece);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  return entries;
}

/** The names in a folder that are text; none where there is no such folder. */
export async function namesIn(disk: Disk, folder: string): Promise<string[]> {
  return (await entriesIn(disk, folder)).filter(({ isText }) => isText).map(({ name }) => name);
}

/** The folders in a folder, without links to folders: those may lead out of the spool. */
export async function foldersIn(disk: Disk, folder: string): Promise<string[]> {
  const entries = await entriesIn(disk, folder);
  return entries.filter(({ isText, kind }) => isText && kind === 'folder').map(({ name }) => name);
}

/** Whether a call has failed because its file or folder is not there. */
export const isMissing = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR'].includes(diskErrorCode(error) ?? '');

/** Whether a rename has failed because something that cannot be replaced is there. */
export const isTaken = (error: unknown): boolean =>
  ['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EISDIR'].includes(diskErrorCode(error) ?? '');
