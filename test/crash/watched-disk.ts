/** A disk whose every call goes through a hook that knows its name and decides when, and whether, it happens. */
import { relative } from 'node:path';
import type { Disk, DiskEntry, DiskFile, DiskStat, EntryStat, OpenMode } from '../../src/kit/env/env.ts';

export interface Operation {
  /** Kind and path, such as `datasync log/0000000000000001.log`; paths are relative to the data folder. */
  readonly name: string;
  readonly kind: string;
  readonly path: string;
  /** Writes only: what is written where. */
  readonly write?: { readonly position: number; readonly data: Uint8Array };
  /** Does only a part of it, where that can be. */
  readonly tear?: () => Promise<void>;
}

export type Around = <T>(operation: Operation, run: () => Promise<T>) => Promise<T>;

class WatchedFile implements DiskFile {
  readonly #file: DiskFile;
  readonly #path: string;
  readonly #around: Around;

  constructor(file: DiskFile, path: string, around: Around) {
    this.#file = file;
    this.#path = path;
    this.#around = around;
  }

  write(position: number, data: Uint8Array): Promise<void> {
    const tear = (): Promise<void> => this.#file.write(position, data.subarray(0, data.length >> 1));
    const write = { ...operation('write', this.#path), write: { position, data }, tear };
    return this.#around(write, () => this.#file.write(position, data));
  }

  read(position: number, length: number): Promise<Buffer> {
    return this.#around(operation('read', this.#path), () => this.#file.read(position, length));
  }

  size(): Promise<number> {
    return this.#around(operation('size', this.#path), () => this.#file.size());
  }

  datasync(): Promise<void> {
    return this.#around(operation('datasync', this.#path), () => this.#file.datasync());
  }

  truncate(size: number): Promise<void> {
    return this.#around(operation('truncate', this.#path), () => this.#file.truncate(size));
  }

  close(): Promise<void> {
    return this.#around(operation('close', this.#path), () => this.#file.close());
  }
}

export class WatchedDisk implements Disk {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #around: Around;

  constructor(disk: Disk, folder: string, around: Around) {
    this.#disk = disk;
    this.#folder = folder;
    this.#around = around;
  }

  async open(path: string, mode: OpenMode): Promise<DiskFile> {
    const file = await this.#call(`open-${mode}`, path, () => this.#disk.open(path, mode));
    return new WatchedFile(file, this.#name(path), this.#around);
  }

  list(folder: string): Promise<string[]> {
    return this.#call('list', folder, () => this.#disk.list(folder));
  }

  async *entries(folder: string): AsyncGenerator<readonly DiskEntry[]> {
    // One call: while only a part of a folder has been read, nobody would know that something is under way.
    yield* await this.#call('entries', folder, () => piecesOf(this.#disk, folder));
  }

  stat(path: string): Promise<DiskStat | undefined> {
    return this.#call('stat', path, () => this.#disk.stat(path));
  }

  lstat(path: string): Promise<EntryStat | undefined> {
    return this.#call('lstat', path, () => this.#disk.lstat(path));
  }

  rename(from: string, to: string): Promise<void> {
    const name = `${this.#name(from)} ${this.#name(to)}`;
    return this.#around(operation('rename', name), () => this.#disk.rename(from, to));
  }

  remove(path: string): Promise<void> {
    return this.#call('remove', path, () => this.#disk.remove(path));
  }

  removeFolder(path: string): Promise<void> {
    return this.#call('removeFolder', path, () => this.#disk.removeFolder(path));
  }

  makeNewFolder(path: string): Promise<void> {
    return this.#call('makeNewFolder', path, () => this.#disk.makeNewFolder(path));
  }

  touch(path: string): Promise<void> {
    return this.#call('touch', path, () => this.#disk.touch(path));
  }

  makeFolder(path: string): Promise<void> {
    return this.#call('makeFolder', path, () => this.#disk.makeFolder(path));
  }

  syncFolder(path: string): Promise<void> {
    return this.#call('syncFolder', path, () => this.#disk.syncFolder(path));
  }

  async lock(path: string): Promise<{ release(): Promise<void> } | undefined> {
    const lock = await this.#call('lock', path, () => this.#disk.lock(path));
    return lock && { release: () => this.#call('unlock', path, () => lock.release()) };
  }

  #call<T>(kind: string, path: string, run: () => Promise<T>): Promise<T> {
    return this.#around(operation(kind, this.#name(path)), run);
  }

  #name(path: string): string {
    return relative(this.#folder, path) || '.';
  }
}

async function piecesOf(disk: Disk, folder: string): Promise<(readonly DiskEntry[])[]> {
  const pieces: (readonly DiskEntry[])[] = [];
  for await (const piece of disk.entries(folder)) pieces.push(piece);
  return pieces;
}

const operation = (kind: string, path: string): Operation => ({ name: `${kind} ${path}`, kind, path });
