/** A disk that reports how long each sync of a file has taken; everything else is left to the disk inside. */
import type { Clock, Disk, DiskEntry, DiskFile, DiskSpace, DiskStat, EntryStat, OpenMode } from './env.ts';

export type SyncListener = (path: string, tookMs: number) => void;

export class MeasuredDisk implements Disk {
  readonly #disk: Disk;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #onSync: SyncListener;
  readonly closeToOthers?: NonNullable<Disk['closeToOthers']>;
  readonly space?: NonNullable<Disk['space']>;

  constructor(disk: Disk, clock: Pick<Clock, 'monotonic'>, onSync: SyncListener) {
    this.#disk = disk;
    this.#clock = clock;
    this.#onSync = onSync;
    if (disk.closeToOthers) this.closeToOthers = disk.closeToOthers.bind(disk);
    if (disk.space) this.space = (path: string): Promise<DiskSpace> => disk.space!(path);
  }

  async open(path: string, mode: OpenMode): Promise<DiskFile> {
    const file = await this.#disk.open(path, mode);
    // Nothing is synced in a file that is only read.
    return mode === 'read' || mode === 'plain' ? file : this.#measured(path, file);
  }

  list(folder: string): Promise<string[]> {
    return this.#disk.list(folder);
  }

  entries(folder: string): AsyncIterable<readonly DiskEntry[]> {
    return this.#disk.entries(folder);
  }

  stat(path: string): Promise<DiskStat | undefined> {
    return this.#disk.stat(path);
  }

  lstat(path: string): Promise<EntryStat | undefined> {
    return this.#disk.lstat(path);
  }

  rename(from: string, to: string): Promise<void> {
    return this.#disk.rename(from, to);
  }

  remove(path: string): Promise<void> {
    return this.#disk.remove(path);
  }

  removeFolder(path: string): Promise<void> {
    return this.#disk.removeFolder(path);
  }

  makeFolder(path: string): Promise<void> {
    return this.#disk.makeFolder(path);
  }

  makeNewFolder(path: string): Promise<void> {
    return this.#disk.makeNewFolder(path);
  }

  touch(path: string): Promise<void> {
    return this.#disk.touch(path);
  }

  syncFolder(path: string): Promise<void> {
    return this.#disk.syncFolder(path);
  }

  lock(path: string): Promise<{ release(): Promise<void> } | undefined> {
    return this.#disk.lock(path);
  }

  #measured(path: string, file: DiskFile): DiskFile {
    return {
      write: (position, data) => file.write(position, data),
      read: (position, length) => file.read(position, length),
      size: () => file.size(),
      truncate: (size) => file.truncate(size),
      close: () => file.close(),
      datasync: async () => {
        const since = this.#clock.monotonic();
        await file.datasync();
        this.#onSync(path, this.#clock.monotonic() - since);
      },
    };
  }
}
