/**
 * A disk that behaves as badly as a disk may: what was not synced can be lost at a power cut, sector by sector
 * and in any order; names that were not synced can be lost; it fills up; a sync can fail and take data with it.
 */
import type { Disk, DiskFile, DiskStat, OpenMode } from '../../src/kit/env/env.ts';
import { MemoryDisk } from './memory-disk.ts';
import type { World } from './world.ts';

const SECTOR = 512;

type FileOp =
  | { readonly is: 'write'; readonly at: number; readonly data: Buffer }
  | { readonly is: 'truncate'; readonly size: number };

/** A file: what is on the platter, and what the system holds on top of it. */
class SimFile {
  platter: Buffer = Buffer.alloc(0);
  content: Buffer = Buffer.alloc(0);
  pending: FileOp[] = [];

  apply(op: FileOp): void {
    this.content = applyOp(this.content, op);
    this.pending.push(op);
  }

  /** Everything up to the n-th pending operation reaches the platter. */
  settle(count: number): void {
    for (const op of this.pending.splice(0, count)) this.platter = applyOp(this.platter, op);
  }

  cutPower(world: World): void {
    for (const op of this.pending) {
      for (const piece of piecesOf(op))
        if (world.random.chance(0.5)) this.platter = applyOp(this.platter, piece);
    }
    this.pending = [];
    this.content = Buffer.from(this.platter);
  }
}

function applyOp(content: Buffer, op: FileOp): Buffer {
  if (op.is === 'truncate') {
    if (op.size <= content.length) return content.subarray(0, op.size);
    return Buffer.concat([content, Buffer.alloc(op.size - content.length)]);
  }
  const end = op.at + op.data.length;
  const grown =
    end > content.length
      ? Buffer.concat([content, Buffer.alloc(end - content.length)])
      : Buffer.from(content);
  op.data.copy(grown, op.at);
  return grown;
}

function* piecesOf(op: FileOp): Generator<FileOp> {
  if (op.is === 'truncate') {
    yield op;
    return;
  }
  for (let from = 0; from < op.data.length; ) {
    const to = Math.min(op.data.length, from + SECTOR - ((op.at + from) % SECTOR));
    yield { is: 'write', at: op.at + from, data: op.data.subarray(from, to) };
    from = to;
  }
}

interface NameOp {
  readonly folder: string;
  apply(names: Map<string, SimFile>): void;
}

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/')) || '/';

class DiskError extends Error {
  readonly code: string;

  constructor(code: string) {
    super(`simulated ${code}`);
    this.code = code;
  }
}

export interface Incarnation {
  readonly alive: boolean;
}

export class SimDisk {
  readonly #world: World;
  readonly #names = new Map<string, SimFile>();
  readonly #platterNames = new Map<string, SimFile>();
  #nameOps: NameOp[] = [];
  readonly #locks = new Map<string, Incarnation>();
  full = false;
  /** The next syncs that fail. */
  failSyncs = 0;
  operations = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** A copy of what a reader would find now, on a disk without faults. */
  copy(): MemoryDisk {
    const copy = new MemoryDisk();
    for (const [path, { content }] of this.#names) {
      for (let folder = folderOf(path); folder !== '/'; folder = folderOf(folder)) copy.folders.add(folder);
      copy.files.set(path, Buffer.from(content));
    }
    return copy;
  }

  /** Puts a backup in the place of everything, all of it synced. */
  restore(backup: MemoryDisk): void {
    this.#nameOps = [];
    this.#names.clear();
    this.#platterNames.clear();
    for (const [path, content] of backup.files) {
      const file = new SimFile();
      file.platter = Buffer.from(content);
      file.content = Buffer.from(content);
      this.#names.set(path, file);
      this.#platterNames.set(path, file);
    }
  }

  /** The machine stops: only what was synced is sure to be there. */
  cutPower(): void {
    for (const folder of new Set(this.#nameOps.map((op) => op.folder))) {
      const ops = this.#nameOps.filter((op) => op.folder === folder);
      for (const op of ops.slice(0, this.#world.random.int(ops.length + 1))) op.apply(this.#platterNames);
    }
    this.#nameOps = [];
    const files = new Set([...this.#names.values(), ...this.#platterNames.values()]);
    for (const file of files) file.cutPower(this.#world);
    this.#names.clear();
    for (const [path, file] of this.#platterNames) this.#names.set(path, file);
  }

  /** The disk as one process sees it; calls of a process that has died never come back. */
  for(owner: Incarnation): Disk {
    const call = <T>(name: string, run: () => T): Promise<T> => this.#call(owner, name, run);
    return {
      open: (path, mode) => call(`open ${path}`, () => this.#open(owner, path, mode)),
      list: (folder) => call(`list ${folder}`, () => this.#list(folder)),
      stat: (path) => call(`stat ${path}`, () => this.#stat(path)),
      rename: (from, to) => call(`rename ${from} ${to}`, () => this.#rename(from, to)),
      remove: (path) => call(`remove ${path}`, () => this.#remove(path)),
      makeFolder: (path) => call(`makeFolder ${path}`, () => undefined),
      syncFolder: (path) => call(`syncFolder ${path}`, () => this.#syncFolder(path)),
      lock: (path) => call(`lock ${path}`, () => this.#lock(owner, path)),
    };
  }

  /** The bytes of a file as any process would read them now. */
  peek(path: string): Buffer | undefined {
    return this.#names.get(path)?.content;
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
    let file = this.#names.get(path);
    if (mode === 'create') {
      if (!file) {
        const created = new SimFile();
        file = created;
        this.#name({ folder: folderOf(path), apply: (names) => names.set(path, created) });
      }
      file.apply({ is: 'truncate', size: 0 });
    } else if (!file) throw new DiskError('ENOENT');
    return this.#handle(owner, path, file);
  }

  #handle(owner: Incarnation, path: string, file: SimFile): DiskFile {
    const call = <T>(name: string, run: () => T): Promise<T> => this.#call(owner, `${name} ${path}`, run);
    return {
      write: (at, data) => {
        const copy = Buffer.from(data);
        return call('write', () => this.#write(file, at, copy));
      },
      read: (at, length) => call('read', () => Buffer.from(file.content.subarray(at, at + length))),
      size: () => call('size', () => file.content.length),
      truncate: (size) => call('truncate', () => file.apply({ is: 'truncate', size })),
      datasync: () => {
        const count = file.pending.length;
        return call('datasync', () => this.#sync(file, count));
      },
      close: () => call('close', () => undefined),
    };
  }

  #write(file: SimFile, at: number, data: Buffer): void {
    if (this.full && at + data.length > file.content.length) {
      // As real disks do: part of it fits.
      const fits = Math.max(0, file.content.length - at);
      if (fits > 0) file.apply({ is: 'write', at, data: data.subarray(0, fits) });
      throw new DiskError('ENOSPC');
    }
    file.apply({ is: 'write', at, data });
  }

  #sync(file: SimFile, count: number): void {
    if (this.failSyncs > 0) {
      this.failSyncs--;
      // After a failed sync the system may drop what it could not write, and call the pages clean.
      file.cutPower(this.#world);
      throw new DiskError('EIO');
    }
    file.settle(count);
  }

  #list(folder: string): string[] {
    const names = [...this.#names.keys()].filter((path) => folderOf(path) === folder);
    return names.map((path) => path.slice(folder.length + 1)).sort();
  }

  #stat(path: string): DiskStat | undefined {
    const file = this.#names.get(path);
    return file && { size: file.content.length, isFolder: false };
  }

  #rename(from: string, to: string): void {
    const file = this.#names.get(from);
    if (!file) throw new DiskError('ENOENT');
    this.#name({
      folder: folderOf(to),
      apply: (names) => {
        names.delete(from);
        names.set(to, file);
      },
    });
  }

  #remove(path: string): void {
    if (this.#names.has(path)) this.#name({ folder: folderOf(path), apply: (names) => names.delete(path) });
  }

  #name(op: NameOp): void {
    op.apply(this.#names);
    this.#nameOps.push(op);
  }

  #syncFolder(folder: string): void {
    for (const op of this.#nameOps) if (op.folder === folder) op.apply(this.#platterNames);
    this.#nameOps = this.#nameOps.filter((op) => op.folder !== folder);
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
