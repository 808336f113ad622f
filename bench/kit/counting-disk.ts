/**
 * The real environment with a disk that counts its syncs and listings; the kernel's counter includes the syncs of other
 * processes.
 */
import type { Disk, DiskFile, Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';

/** Calls so far, on the main thread only: the history's thread has its own disk. */
export interface DiskCounts {
  fileSyncs: number;
  folderSyncs: number;
  /** Listings of folders, whole or in pieces. */
  listings: number;
}

export interface CountingEnv {
  readonly env: Env;
  readonly counts: Readonly<DiskCounts>;
  /** The number of file and folder syncs so far. */
  readonly syncs: () => number;
}

export function countingEnv(env: Env = realEnv()): CountingEnv {
  const counts = { fileSyncs: 0, folderSyncs: 0, listings: 0 };
  return {
    env: { ...env, disk: countingDisk(env.disk, counts) },
    counts,
    syncs: () => counts.fileSyncs + counts.folderSyncs,
  };
}

function countingDisk(disk: Disk, counts: DiskCounts): Disk {
  return {
    open: async (path, mode) => countingFile(await disk.open(path, mode), counts),
    list: (folder) => {
      counts.listings++;
      return disk.list(folder);
    },
    entries: (folder) => {
      counts.listings++;
      return disk.entries(folder);
    },
    stat: (path) => disk.stat(path),
    lstat: (path) => disk.lstat(path),
    rename: (from, to) => disk.rename(from, to),
    remove: (path) => disk.remove(path),
    removeFolder: (path) => disk.removeFolder(path),
    makeFolder: (path) => disk.makeFolder(path),
    makeNewFolder: (path) => disk.makeNewFolder(path),
    touch: (path) => disk.touch(path),
    syncFolder: (path) => {
      counts.folderSyncs++;
      return disk.syncFolder(path);
    },
    lock: (path) => disk.lock(path),
  };
}

function countingFile(file: DiskFile, counts: DiskCounts): DiskFile {
  return {
    write: (position, data) => file.write(position, data),
    read: (position, length) => file.read(position, length),
    size: () => file.size(),
    datasync: () => {
      counts.fileSyncs++;
      return file.datasync();
    },
    truncate: (size) => file.truncate(size),
    close: () => file.close(),
  };
}
