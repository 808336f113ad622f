/** A temporary file that has no name: only this process can open it, and nothing is left of it, however the process ends. */
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FILE_MODE } from './private-files.ts';

export async function namelessFile(): Promise<FileHandle> {
  // The folder has a mode that keeps others out.
  const folder = await mkdtemp(join(tmpdir(), 'orchd-'));
  try {
    return await open(join(folder, 'file'), 'wx+', FILE_MODE);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Writes all bytes at a position of a file, by default where it was last written. */
export async function writeAll(
  file: FileHandle,
  bytes: Buffer,
  position: number | null = null,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const at = position === null ? null : position + done;
    done += (await file.write(bytes, done, bytes.length - done, at)).bytesWritten;
  }
}
