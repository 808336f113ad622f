/** A MemoryDisk that is full or fails by order, and that can hold back its syncs. */
import type { Disk, DiskFile } from '../../src/kit/env/env.ts';
import { MemoryDisk } from './memory-disk.ts';

const failure = (code: string): Error => Object.assign(new Error(code), { code });

export class FaultyDisk {
  readonly memory: MemoryDisk;
  /** A write that would end behind this position of its file writes up to there and fails. */
  maxFileBytes = Number.POSITIVE_INFINITY;
  failsSyncs = false;
  /** Syncs wait while it is set. */
  held: PromiseWithResolvers<void> | undefined;
  syncs = 0;
  /** Called before each operation that changes something; a test throws here to stop a process. */
  onChange: (operation: string) => void = () => undefined;

  constructor(memory = new MemoryDisk()) {
    this.memory = memory;
  }

  get disk(): Disk {
    const { memory } = this;
    return {
      open: async (path, mode) => {
        if (mode === 'create' || mode === 'exclusive') this.onChange('create');
        return this.#file(await memory.open(path, mode));
      },
      list: (folder) => memory.list(folder),
      entries: (folder) => memory.entries(folder),
      stat: (path) => memory.stat(path),
      lstat: (path) => memory.lstat(path),
      rename: async (from, to) => {
        this.onChange('rename');
        await memory.rename(from, to);
      },
      remove: async (path) => {
        this.onChange('remove');
        await memory.remove(path);
      },
      removeFolder: async (path) => {
        this.onChange('removeFolder');
        await memory.removeFolder(path);
      },
      makeFolder: (path) => memory.makeFolder(path),
      makeNewFolder: (path) => memory.makeNewFolder(path),
      touch: (path) => memory.touch(path),
      syncFolder: async (path) => {
        this.onChange('syncFolder');
        await memory.syncFolder(path);
      },
      lock: (path) => memory.lock(path),
    };
  }

  #file(file: DiskFile): DiskFile {
    return {
      write: async (position, data) => {
        this.onChange('write');
        const fits = Math.max(0, this.maxFileBytes - position);
        if (data.length <= fits) return file.write(position, data);
        if (fits > 0) await file.write(position, data.subarray(0, fits));
        throw failure('ENOSPC');
      },
      read: (position, length) => file.read(position, length),
      size: () => file.size(),
      datasync: async () => {
        this.onChange('datasync');
        this.syncs++;
        if (this.failsSyncs) throw failure('EIO');
        await this.held?.promise;
      },
      truncate: async (size) => {
        this.onChange('truncate');
        await file.truncate(size);
      },
      close: () => file.close(),
    };
  }
}
