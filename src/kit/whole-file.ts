/** Reads and writes files as a whole: after a crash the file has its old content or its new content, never a part. */
import { dirname } from 'node:path';
import { type Disk, diskErrorCode } from './env/env.ts';

export interface WriteOptions {
  /** The temporary path, on the same file system as the file. Concurrent writers of one file need different ones. */
  readonly temporary?: string;
  /**
   * `visible` skips the sync of the folder: a power loss may then undo the rename and bring back the old state.
   * `unsynced` skips all syncs: a power loss may leave an empty file too.
   */
  readonly name?: 'durable' | 'visible' | 'unsynced';
}

/** Settles when the content and its name are on stable storage; see `name`. */
export async function writeWholeFile(
  disk: Disk,
  path: string,
  content: string | Uint8Array,
  { temporary = `${path}.tmp`, name = 'durable' }: WriteOptions = {},
): Promise<void> {
  try {
    await write(disk, temporary, content, name !== 'unsynced');
    await disk.rename(temporary, path);
  } catch (error) {
    await disk.remove(temporary).catch(() => undefined);
    throw error;
  }
  if (name === 'durable') await disk.syncFolder(dirname(path));
}

/** The first half of writeWholeFile, for writers that do something else before the rename. */
export function writeSynced(disk: Disk, path: string, content: string | Uint8Array): Promise<void> {
  return write(disk, path, content, true);
}

async function write(
  disk: Disk,
  path: string,
  content: string | Uint8Array,
  isSynced: boolean,
): Promise<void> {
  const file = await disk.open(path, 'create');
  try {
    await file.write(0, typeof content === 'string' ? Buffer.from(content) : content);
    if (isSynced) await file.datasync();
  } finally {
    await file.close();
  }
}

/** The content of a file, at most its first `maxBytes`; undefined if there is no such file. */
export async function readWholeFile(
  disk: Disk,
  path: string,
  maxBytes = Number.POSITIVE_INFINITY,
  mode: 'read' | 'plain' = 'read',
): Promise<Buffer | undefined> {
  try {
    const file = await disk.open(path, mode);
    try {
      return await file.read(0, Math.min(await file.size(), maxBytes));
    } finally {
      await file.close();
    }
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(diskErrorCode(error) ?? '')) return undefined;
    throw error;
  }
}
