/** Files that are read and written as a whole: whatever happens, there is the old content or the new, never a part. */
import { dirname } from 'node:path';
import { type Disk, diskErrorCode } from './env/env.ts';

export interface WriteOptions {
  /** On the same file system as the file. Two who may write the same file at once need different ones. */
  readonly temporary?: string;
  /** `visible`: a loss of power may undo the write, in which case the old file is there again, or none. */
  readonly name?: 'durable' | 'visible';
}

/** Settles when the content is on stable storage, and so is the name unless it need only be visible. */
export async function writeWholeFile(
  disk: Disk,
  path: string,
  content: string | Uint8Array,
  { temporary = `${path}.tmp`, name = 'durable' }: WriteOptions = {},
): Promise<void> {
  try {
    await writeSynced(disk, temporary, content);
    await disk.rename(temporary, path);
  } catch (error) {
    await disk.remove(temporary).catch(() => undefined);
    throw error;
  }
  if (name === 'durable') await disk.syncFolder(dirname(path));
}

/** The first half of it: for writers that do something else before they rename the file. */
export async function writeSynced(disk: Disk, path: string, content: string | Uint8Array): Promise<void> {
  const file = await disk.open(path, 'create');
  try {
    await file.write(0, typeof content === 'string' ? Buffer.from(content) : content);
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** The content, at most its first `maxBytes`; undefined where there is no such file. */
export async function readWholeFile(
  disk: Disk,
  path: string,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<Buffer | undefined> {
  try {
    const file = await disk.open(path, 'read');
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
