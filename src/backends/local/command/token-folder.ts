/** The keeper's side of a token's folder: creates it atomically (L1 of layout.ts) and writes its files. */
import fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { makePrivateFolder, openPrivate } from '../../../kit/env/private-files.ts';
import type { ProcessIdentity } from '../../../kit/process/identity.ts';
import { filesIn, type Layout, type OwnerRecord } from './layout.ts';

export const fsync: (fd: number) => Promise<void> = promisify(fs.fsync);

/** The errors of a rename onto a folder that exists already. */
const TAKEN_ERRNOS = ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'];

/** The open files of a command. All are opened for appending: a file that is cut short meanwhile has no gap then. */
export interface CommandFiles {
  readonly input: number;
  readonly stdout: number;
  readonly stderr: number;
  readonly owner: number;
}

/** A token's folder before it is in place. */
export class StagedFolder {
  readonly #path: string;
  #writer: number;
  #input: number | undefined;
  /** The bytes of the payload so far. */
  #written = 0;

  /** `n` tells the folders of one keeper apart. */
  constructor(layout: Pick<Layout, 'staging'>, self: ProcessIdentity, n: number, payloadBytes: number) {
    this.#path = stagingPath(layout, self, n);
    makePrivateFolder(this.#path);
    const inMemory = join(MEMORY_FOLDER, `orchd-${self.pid}-${self.start}-${n}`);
    const opened = payloadBytes <= MAX_MEMORY_BYTES ? tryOpen(inMemory) : undefined;
    [this.#writer, this.#input] = opened ?? openUnnamed(join(this.#path, 'input'));
  }

  writePayload(bytes: Uint8Array): void {
    try {
      writeAll(this.#writer, bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      this.#moveToDisk();
      writeAll(this.#writer, bytes);
    }
    this.#written += bytes.length;
  }

  /** MEMORY_FOLDER is full, which says nothing about the disk. */
  #moveToDisk(): void {
    const input = this.#input as number;
    const begun = Buffer.alloc(this.#written);
    fs.readSync(input, begun, 0, begun.length, 0);
    const [writer, reader] = openUnnamed(join(this.#path, 'input'));
    fs.closeSync(this.#writer);
    fs.closeSync(input);
    [this.#writer, this.#input] = [writer, reader];
    writeAll(writer, begun);
  }

  /** Fills the folder, and puts it in place; `taken` where the token has one. Nothing of it is durable yet. */
  place(owner: OwnerRecord, target: string): CommandFiles | 'taken' {
    const files = filesIn(this.#path);
    const open: number[] = [];
    const create = (path: string): number => {
      const fd = openPrivate(path, 'ax');
      open.push(fd);
      return fd;
    };
    try {
      const opened = { stdout: create(files.stdout), stderr: create(files.stderr) };
      const ownerFile = create(files.owner);
      writeAll(ownerFile, textOf(owner));
      makePrivateFolder(files.work);
      fs.renameSync(this.#path, target);
      fs.closeSync(this.#writer);
      const input = this.#input as number;
      this.#input = undefined;
      return { input, ...opened, owner: ownerFile };
    } catch (error) {
      for (const fd of open) fs.closeSync(fd);
      this.remove();
      if (TAKEN_ERRNOS.includes((error as NodeJS.ErrnoException).code ?? '')) return 'taken';
      throw error;
    }
  }

  remove(): void {
    if (this.#input === undefined) return;
    fs.closeSync(this.#writer);
    fs.closeSync(this.#input);
    this.#input = undefined;
    fs.rmSync(this.#path, { recursive: true, force: true });
  }
}

/** A file system in memory: small payloads never get to a disk, and cost no inode there. */
const MEMORY_FOLDER = '/dev/shm';
const MAX_MEMORY_BYTES = 256 * 1024;

/** Opens a new file for writing and for reading. Its name is removed at once, so that no payload is left behind. */
function openUnnamed(path: string): [writer: number, reader: number] {
  const writer = openPrivate(path, 'wx');
  try {
    return [writer, fs.openSync(path, 'r')];
  } catch (error) {
    fs.closeSync(writer);
    throw error;
  } finally {
    fs.unlinkSync(path);
  }
}

/** Undefined where there is no such folder, or no room in it. */
function tryOpen(path: string): [writer: number, reader: number] | undefined {
  try {
    return openUnnamed(path);
  } catch {
    return undefined;
  }
}

/** The name contains the pid and the start time of the keeper: a folder whose keeper is dead can be removed. */
export const stagingPath = (
  { staging }: Pick<Layout, 'staging'>,
  { pid, start }: Pick<ProcessIdentity, 'pid' | 'start'>,
  n: number,
): string => join(staging, `s-${pid}-${start}-${n}`);

/** Renames a folder that holds something; false where the target exists and holds something too. */
export function takePlace(folder: string, target: string): boolean {
  try {
    fs.renameSync(folder, target);
    return true;
  } catch (error) {
    fs.rmSync(folder, { recursive: true, force: true });
    if (TAKEN_ERRNOS.includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

const textOf = (value: unknown): Buffer => Buffer.from(`${JSON.stringify(value)}\n`);

/** `beside` is synced at the same time, so that both share a flush of the disk. */
async function writeSyncedFile(path: string, value: unknown, beside: () => Promise<void>): Promise<void> {
  const fd = openPrivate(path, 'w');
  try {
    writeAll(fd, textOf(value));
    await Promise.all([fsync(fd), beside()]);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Writes a JSON file by way of a rename, so that no reader sees half of it; synced before and after. `beside` is synced
 * before too.
 */
export async function writeDurable(
  folder: string,
  path: string,
  value: unknown,
  beside: () => Promise<void>,
): Promise<void> {
  await writeSyncedFile(`${path}.tmp`, value, beside);
  fs.renameSync(`${path}.tmp`, path);
  await syncFolder(folder);
}

/** The most bytes that are written over a file which has at least one block of the disk. */
export const MAX_OVERWRITE_BYTES = 1024;

/**
 * Like writeDurable on a disk without space: the value is written over a file that has its block already, which then gets
 * the new name. A crash in between leaves neither of the two.
 */
export async function overwriteDurable(
  folder: string,
  path: string,
  over: string,
  value: unknown,
): Promise<void> {
  const text = textOf(value);
  if (text.length > MAX_OVERWRITE_BYTES) throw new Error('it is too long');
  const fd = openPrivate(over, 'r+');
  try {
    let done = 0;
    while (done < text.length) done += fs.writeSync(fd, text, done, text.length - done, done);
    fs.ftruncateSync(fd, text.length);
    await fsync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(over, path);
  await syncFolder(folder);
}

/** Like writeDurable without the syncs. */
export function writeVisible(path: string, value: unknown): void {
  const fd = openPrivate(`${path}.tmp`, 'w');
  try {
    writeAll(fd, textOf(value));
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(`${path}.tmp`, path);
}

function writeAll(fd: number, bytes: Uint8Array): void {
  let done = 0;
  while (done < bytes.length) done += fs.writeSync(fd, bytes, done);
}

export async function syncFolder(path: string): Promise<void> {
  const fd = fs.openSync(path, 'r');
  try {
    await fsync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** Syncs one folder for many callers: all who call while a sync runs share the next one. */
export class SharedSync {
  readonly #path: string;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Settles after a sync that began after this call. */
  sync(): Promise<void> {
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        this.#running = syncFolder(this.#path);
        return this.#running;
      });
    return this.#next;
  }
}
