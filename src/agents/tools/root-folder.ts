/**
 * The files below one folder, for callers that may be hostile and may have helpers in the folder: programs that swap links
 * in while a call runs.
 *
 * R1  A path is opened first and checked afterwards: by /proc/self/fd, what was opened must have exactly the path that was
 *     asked for. A link anywhere in the path leads to another one, and is refused wherever it points. Nothing is decided
 *     from a look at the path before it is opened, so that there is nothing to swap in between.
 * R2  Only regular files and folders are opened. A pipe or device is refused without waiting for it.
 * R3  A file is written under a temporary name and renamed, both in a folder that is held open: it has its old content or
 *     its new one, and a link that takes the place of the folder meanwhile is not followed.
 * R4  No message contains the path of the root, or any other path outside.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { diskErrorCode, type Random } from '../../kit/env/env.ts';
import { openPrivate } from '../../kit/env/private-files.ts';
import { openRegular } from '../../kit/env/regular-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { parentPath, type RootPath } from './root-path.ts';

/** Entries of one folder that are read; the order of a folder is arbitrary, so the rest cannot be read later. */
const MAX_FOLDER_ENTRIES = 10_000;

export interface FolderEntry {
  readonly name: string;
  readonly kind: 'file' | 'folder' | 'link' | 'other';
}

export interface FolderEntries {
  /** By name. */
  readonly entries: readonly FolderEntry[];
  /** False if the folder has more entries than are read of one. */
  readonly isWhole: boolean;
}

export interface FileRange {
  readonly bytes: Buffer;
  /** The size of the whole file, in bytes. */
  readonly size: number;
}

const readAt = promisify(fs.read);
const writeAt = promisify(fs.write);
const sync = promisify(fs.fsync);

export class RootFolder {
  /** Without links. */
  readonly #root: string;
  readonly #random: Random;
  readonly maxEntries: number;

  /** Throws INVALID_PARAMS if there is no such folder, or the system cannot tell the path of an open file. */
  constructor(root: string, random: Random, maxEntries = MAX_FOLDER_ENTRIES) {
    this.maxEntries = maxEntries;
    this.#random = random;
    try {
      this.#root = fs.realpathSync(root);
      fs.closeSync(this.#openFolder({ names: [], text: '.' }));
    } catch {
      throw new OrchdError(
        'INVALID_PARAMS',
        'the root of the file tools must be a folder, on a system with /proc',
        {
          field: 'root',
        },
      );
    }
  }

  /** Reads at most `length` bytes from `offset`; fewer at the end of the file. */
  async read(path: RootPath, offset: number, length: number): Promise<FileRange> {
    const fd = this.#opened(path, () => openRegular(this.#absolute(path)));
    try {
      const { size } = fs.fstatSync(fd);
      const buffer = Buffer.alloc(Math.max(0, Math.min(length, size - offset)));
      let done = 0;
      while (done < buffer.length) {
        const { bytesRead } = await readAt(fd, buffer, done, buffer.length - done, offset + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return { bytes: buffer.subarray(0, done), size };
    } catch (error) {
      throw refusal(error, path);
    } finally {
      fs.closeSync(fd);
    }
  }

  /** Reads at most `maxEntries` entries. */
  async list(path: RootPath, signal: AbortSignal): Promise<FolderEntries> {
    const fd = this.#openFolder(path);
    const entries: FolderEntry[] = [];
    try {
      for await (const entry of await fs.promises.opendir(held(fd), { bufferSize: 256 })) {
        signal.throwIfAborted();
        if (entries.length === this.maxEntries) return { entries: sorted(entries), isWhole: false };
        entries.push({ name: entry.name, kind: kindOf(entry) });
      }
      return { entries: sorted(entries), isWhole: true };
    } catch (error) {
      throw refusal(error, path);
    } finally {
      fs.closeSync(fd);
    }
  }

  /** The sizes of these entries of a folder; undefined for one that is no file. Links are not followed. */
  sizes(folder: RootPath, names: readonly string[]): (number | undefined)[] {
    const fd = this.#openFolder(folder);
    try {
      return names.map((name) => {
        const stats = fs.lstatSync(held(fd, name), { throwIfNoEntry: false });
        return stats?.isFile() ? stats.size : undefined;
      });
    } catch (error) {
      throw refusal(error, folder);
    } finally {
      fs.closeSync(fd);
    }
  }

  /** Creates or replaces a file; its folder has to exist. A file that is replaced keeps its permissions. */
  async write(path: RootPath, content: Uint8Array): Promise<void> {
    const name = path.names.at(-1);
    if (name === undefined) throw new Error('"." is the root folder, and no file');
    const folder = parentPath(path);
    const fd = this.#openFolder(folder);
    try {
      await this.#replace(fd, name, content, () => this.#check(fd, folder));
    } catch (error) {
      throw refusal(error, path);
    } finally {
      fs.closeSync(fd);
    }
  }

  /** `check` throws if the folder is no longer where it was opened. */
  async #replace(folder: number, name: string, content: Uint8Array, check: () => void): Promise<void> {
    const before = fs.lstatSync(held(folder, name), { throwIfNoEntry: false });
    if (before && !before.isFile()) throw new PathRefusal('is no file, and is not replaced');
    if (before && (before.mode & OWNER_MAY_WRITE) === 0) throw new PathRefusal('is read-only');
    const temporary = held(folder, `.orchd-${this.#random.hex(8)}.tmp`);
    const fd = openPrivate(temporary, 'wx');
    try {
      for (let done = 0; done < content.length; )
        done += (await writeAt(fd, content, done, content.length - done, done)).bytesWritten;
      if (before) fs.fchmodSync(fd, before.mode & PERMISSIONS);
      await sync(fd);
      check();
      fs.renameSync(temporary, held(folder, name));
    } catch (error) {
      fs.rmSync(temporary, { force: true });
      throw error;
    } finally {
      fs.closeSync(fd);
    }
    await sync(folder);
  }

  /** The slash at the end lets the system open nothing but a folder: a pipe is refused instead of waited for. */
  #openFolder(path: RootPath): number {
    return this.#opened(path, () => fs.openSync(`${this.#absolute(path)}/`, 'r'));
  }

  #opened(path: RootPath, open: () => number): number {
    let fd: number | undefined;
    try {
      fd = open();
      this.#check(fd, path);
      return fd;
    } catch (error) {
      if (fd !== undefined) fs.closeSync(fd);
      throw refusal(error, path);
    }
  }

  /** R1. */
  #check(fd: number, path: RootPath): void {
    if (fs.readlinkSync(held(fd)) !== this.#absolute(path))
      throw new PathRefusal('is a link or leads through one, and links are not followed');
  }

  #absolute({ names }: RootPath): string {
    return join(this.#root, ...names);
  }
}

const OWNER_MAY_WRITE = 0o200;
const PERMISSIONS = 0o777;

/** A path of what is open, or of an entry of a folder that is open, wherever it has been moved. */
const held = (fd: number, name?: string): string =>
  name === undefined ? `/proc/self/fd/${fd}` : `/proc/self/fd/${fd}/${name}`;

function kindOf(entry: fs.Dirent): FolderEntry['kind'] {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'folder';
  return entry.isSymbolicLink() ? 'link' : 'other';
}

/** By code units: the same order on every machine. */
const sorted = (entries: FolderEntry[]): FolderEntry[] =>
  entries.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

/** A refusal of a path. `refusal` puts the path before its message, as the model knows it. */
class PathRefusal extends Error {}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'is no folder, or leads through something that is none',
  ELOOP: 'is a link or leads through one, and links are not followed',
  // From openRegular.
  EINVAL: 'is no file that can be read',
  ENXIO: 'is no file that can be read',
  EACCES: 'may not be opened',
  EPERM: 'may not be opened',
  ENAMETOOLONG: 'has a name that is too long',
  ENOSPC: 'could not be written: the disk is full',
};

/** The messages of node:fs contain the whole path (R4). */
function refusal(error: unknown, { text }: RootPath): unknown {
  if (error instanceof PathRefusal) return new Error(`"${text}" ${error.message}`);
  const code = diskErrorCode(error);
  return code === undefined ? error : new Error(`"${text}" ${REASONS[code] ?? `failed (${code})`}`);
}
