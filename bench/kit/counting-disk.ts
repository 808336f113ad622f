/** The real environment with a disk that counts its syncs; the kernel's counter includes those of other processes. */
import type { Disk, DiskFile, Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';

export interface CountingEnv {
  readonly env: Env;
  /** The number of file and folder syncs so far, on the main thread only: the history's thread has its own disk. */
  readonly syncs: () => number;
}

export function countingEnv(): CountingEnv {
  const env = realEnv();
  const counter = { syncs: 0 };
  return { env: { ...env, disk: countingDisk(env.disk, counter) }, syncs: () => counter.syncs };
}

function countingDisk(disk: Disk, counter: { syncs: number }): Disk {
  return {
    open: async (path, mode) => countingFile(await disk.open(path, mode), counter),
    list: (folder) => disk.list(folder),
    stat: (path) => disk.stat(path),
    rename: (from, to) => disk.rename(from, to),
    remove: (path) => disk.remove(path),
    makeFolder: (path) => disk.makeFolder(path),
    syncFolder: (path) => {
      counter.syncs++;
      return disk.syncFolder(path);
    },
    lock: (path) => disk.lock(path),
  };
}

function countingFile(file: DiskFile, counter: { syncs: number }): DiskFile {
  return {
    write: (position, data) => file.write(position, data),
    read: (position, length) => file.read(position, length),
    size: () => file.size(),
    datasync: () => {
      counter.syncs++;
      return file.datasync();
    },
    truncate: (size) => file.truncate(size),
    close: () => file.close(),
  };
}
