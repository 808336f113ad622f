/** A disk in memory, for tests that damage thousands of copies of a folder. Everything written is durable at once. */
import { dirname, join } from 'node:path';
import type { Disk, DiskEntry, DiskFile, DiskStat, EntryStat, OpenMode } from '../../src/kit/env/env.ts';

const failure = (code: string, path: string): Error => Object.assign(new Error(`${code}: ${path}`), { code });

export class MemoryDisk implements Disk {
  readonly files = new Map<string, Buffer>();
  readonly folders = new Set<string>(['/', '.']);
  readonly #locks = new Set<string>();

  /** Another disk with the same files; writing to one does not change the other. */
  copy(): MemoryDisk {
    const disk = new MemoryDisk();
    for (const [path, bytes] of this.files) disk.files.set(path, Buffer.from(bytes));
    for (const path of this.folders) disk.folders.add(path);
    return disk;
  }

  async open(path: string, mode: OpenMode): Promise<DiskFile> {
    if (mode === 'create' || mode === 'exclusive' || (mode === 'append' && !this.files.has(path))) {
      if (!this.folders.has(dirname(path))) throw failure('ENOENT', path);
      if (mode === 'exclusive' && this.files.has(path)) throw failure('EEXIST', path);
      this.files.set(path, Buffer.alloc(0));
    }
    if (!this.files.has(path)) throw failure('ENOENT', path);
    return this.#file(path, mode);
  }

  async list(folder: string): Promise<string[]> {
    const names = new Set<string>();
    for (const path of [...this.files.keys(), ...this.folders]) {
      if (dirname(path) === folder && path !== folder) names.add(path.slice(path.lastIndexOf('/') + 1));
    }
    return [...names].sort();
  }

  async *entries(folder: string): AsyncGenerator<readonly DiskEntry[]> {
    if (!this.folders.has(folder)) throw failure('ENOENT', folder);
    const names = await this.list(folder);
    yield names.map((name) => {
      const kind = this.folders.has(join(folder, name)) ? 'folder' : 'file';
      return { name, kind, isText: true };
    });
  }

  async lstat(path: string): Promise<EntryStat | undefined> {
    const stat = await this.stat(path);
    const kind = stat?.isFolder ? 'folder' : 'file';
    return stat && { kind, size: stat.size, device: '', identity: path, modifiedMs: 0 };
  }

  async stat(path: string): Promise<DiskStat | undefined> {
    const bytes = this.files.get(path);
    if (bytes) return { size: bytes.length, isFolder: false };
    return this.folders.has(path) ? { size: 0, isFolder: true } : undefined;
  }

  async rename(from: string, to: string): Promise<void> {
    const moved = (path: string): string => (path === from ? to : to + path.slice(from.length));
    const isInside = (path: string): boolean => path === from || path.startsWith(`${from}/`);
    const files = [...this.files].filter(([path]) => isInside(path));
    const folders = [...this.folders].filter(isInside);
    if (files.length + folders.length === 0) throw failure('ENOENT', from);
    for (const [path, bytes] of files) {
      this.files.delete(path);
      this.files.set(moved(path), bytes);
    }
    for (const path of folders) {
      this.folders.delete(path);
      this.folders.add(moved(path));
    }
  }

  async remove(path: string): Promise<void> {
    this.files.delete(path);
  }

  async removeFolder(path: string): Promise<void> {
    if ((await this.list(path)).length > 0) throw failure('ENOTEMPTY', path);
    this.folders.delete(path);
  }

  /** The files of this disk have no times. */
  async touch(path: string): Promise<void> {
    if (!this.files.has(path) && !this.folders.has(path)) throw failure('ENOENT', path);
  }

  async makeFolder(path: string): Promise<void> {
    if (this.files.has(path)) throw failure('EEXIST', path);
    for (let each = path; !this.folders.has(each); each = dirname(each)) this.folders.add(each);
  }

  async makeNewFolder(path: string): Promise<void> {
    if (!this.folders.has(dirname(path))) throw failure('ENOENT', path);
    if (this.files.has(path) || this.folders.has(path)) throw failure('EEXIST', path);
    this.folders.add(path);
  }

  async syncFolder(path: string): Promise<void> {
    if (!this.folders.has(path)) throw failure('ENOENT', path);
  }

  async lock(path: string): Promise<{ release(): Promise<void> } | undefined> {
    if (this.#locks.has(path)) return undefined;
    this.#locks.add(path);
    if (!this.files.has(path)) this.files.set(path, Buffer.alloc(0));
    return {
      release: async () => {
        this.#locks.delete(path);
      },
    };
  }

  #file(path: string, mode: OpenMode): DiskFile {
    // The file itself, so that a rename while it is open does not lose it.
    let bytes = this.files.get(path) as Buffer;
    const store = (next: Buffer): void => {
      for (const [name, known] of this.files) if (known === bytes) this.files.set(name, next);
      bytes = next;
    };
    const mayWrite = (): void => {
      if (mode === 'read' || mode === 'plain') throw failure('EBADF', path);
    };
    return {
      async write(wanted, data) {
        mayWrite();
        const position = mode === 'append' ? bytes.length : wanted;
        if (position + data.length > bytes.length) store(grown(bytes, position + data.length));
        bytes.set(data, position);
      },
      read: async (position, length) => Buffer.from(bytes.subarray(position, position + length)),
      size: async () => bytes.length,
      datasync: async () => undefined,
      async truncate(size) {
        mayWrite();
        store(size <= bytes.length ? Buffer.from(bytes.subarray(0, size)) : grown(bytes, size));
      },
      close: async () => undefined,
    };
  }
}

function grown(bytes: Buffer, size: number): Buffer {
  const next = Buffer.alloc(size);
  bytes.copy(next);
  return next;
}
