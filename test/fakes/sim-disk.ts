/**
 * A disk that behaves as badly as a disk may: what was not synced can be lost at a power cut, sector by sector
 * and in any order; names that were not synced can be lost; it fills up; a sync can fail and take data with it.
 */
import type { Disk, DiskEntry, DiskFile, DiskStat, OpenMode } from '../../src/kit/env/env.ts';
import { MemoryDisk } from './memory-disk.ts';
import type { SimFile } from './sim-file.ts';
import { folderOf, SimDiskError, SimTree } from './sim-tree.ts';
import type { World } from './world.ts';

export interface Incarnation {
  readonly alive: boolean;
}

export class SimDisk {
  readonly #world: World;
  readonly #tree: SimTree;
  readonly #locks = new Map<string, Incarnation>();
  /** The next syncs that fail. */
  failSyncs = 0;
  operations = 0;

  constructor(world: World) {
    this.#world = world;
    this.#tree = new SimTree(() => world.clock.now());
  }

  get full(): boolean {
    return this.#tree.full;
  }

  set full(isFull: boolean) {
    this.#tree.full = isFull;
  }

  /** A copy of what a reader would find now, on a disk without faults. */
  copy(): MemoryDisk {
    const copy = new MemoryDisk();
    for (const { path, node } of this.#tree.walk()) {
      if (node.isFolder) continue;
      for (let folder = folderOf(path); folder !== '/'; folder = folderOf(folder)) copy.folders.add(folder);
      copy.files.set(path, Buffer.from(node.content));
    }
    return copy;
  }

  /** Puts a backup in the place of everything, all of it synced. */
  restore(backup: MemoryDisk): void {
    this.#tree.replace(backup.files);
  }

  /** The machine stops: only what was synced is sure to be there. */
  cutPower(): void {
    this.#tree.cutPower((probability) => this.#world.random.chance(probability));
  }

  /** The disk as one process sees it; calls of a process that has died never come back. */
  for(owner: Incarnation): Disk {
    const call = <T>(name: string, run: () => T): Promise<T> => this.#call(owner, name, run);
    const tree = this.#tree;
    return {
      open: (path, mode) => call(`open ${path}`, () => this.#open(owner, path, mode)),
      list: (folder) => call(`list ${folder}`, () => this.#list(folder)),
      entries: (folder) => this.#entries(owner, folder),
      stat: (path) => call(`stat ${path}`, () => this.#stat(path)),
      lstat: (path) => call(`lstat ${path}`, () => tree.lstat(path)),
      rename: (from, to) => call(`rename ${from} ${to}`, () => tree.rename(from, to)),
      remove: (path) => call(`remove ${path}`, () => tree.remove(path)),
      removeFolder: (path) => call(`removeFolder ${path}`, () => tree.removeFolder(path)),
      makeFolder: (path) => call(`makeFolder ${path}`, () => tree.makeFolder(path)),
      makeNewFolder: (path) => call(`makeNewFolder ${path}`, () => tree.makeNewFolder(path)),
      touch: (path) => call(`touch ${path}`, () => tree.touch(path)),
      syncFolder: (path) => call(`syncFolder ${path}`, () => tree.syncFolder(path)),
      lock: (path) => call(`lock ${path}`, () => this.#lock(owner, path)),
    };
  }

  /** The bytes of a file as any process would read them now. */
  peek(path: string): Buffer | undefined {
    const node = this.#tree.find(path);
    return node?.isFolder ? undefined : node?.content;
  }

  #call<T>(owner: Incarnation, name: string, run: () => T): Promise<T> {
    this.operations++;
    return new Promise((resolve, reject) => {
      this.#world.after(this.#world.random.between(0.02, 0.6), () => {
        if (!owner.alive) return;
        this.#world.note(name);
        try {
          resolve(run());
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  #open(owner: Incarnation, path: string, mode: OpenMode): DiskFile {
    const file = this.#tree.open(path, mode);
    const call = <T>(name: string, run: () => T): Promise<T> => this.#call(owner, `${name} ${path}`, run);
    return {
      write: (at, data) => {
        const copy = Buffer.from(data);
        return call('write', () =>
          this.#tree.write(file, mode === 'append' ? file.content.length : at, copy),
        );
      },
      read: (at, length) => call('read', () => Buffer.from(file.content.subarray(at, at + length))),
      size: () => call('size', () => file.content.length),
      truncate: (size) =>
        call('truncate', () => file.apply({ is: 'truncate', size }, this.#world.clock.now())),
      datasync: () => {
        const count = file.pending.length;
        return call('datasync', () => this.#sync(file, count));
      },
      close: () => call('close', () => undefined),
    };
  }

  #sync(file: SimFile, count: number): void {
    if (this.failSyncs > 0) {
      this.failSyncs--;
      // After a failed sync the system may drop what it could not write, and call the pages clean.
      file.cutPower((probability) => this.#world.random.chance(probability));
      throw new SimDiskError('EIO');
    }
    file.settle(count);
  }

  #list(folder: string): string[] {
    const found = this.#tree.find(folder);
    return found?.isFolder ? [...found.names.keys()].sort() : [];
  }

  async *#entries(owner: Incarnation, folder: string): AsyncGenerator<readonly DiskEntry[]> {
    yield await this.#call(owner, `entries ${folder}`, () => this.#tree.entries(folder));
  }

  #stat(path: string): DiskStat | undefined {
    const node = this.#tree.find(path);
    return node && { size: node.isFolder ? 0 : node.content.length, isFolder: node.isFolder };
  }

  #lock(owner: Incarnation, path: string): { release(): Promise<void> } | undefined {
    const holder = this.#locks.get(path);
    if (holder?.alive) return undefined;
    this.#locks.set(path, owner);
    return {
      release: async () => {
        if (this.#locks.get(path) === owner) this.#locks.delete(path);
      },
    };
  }
}
