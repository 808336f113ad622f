/**
 * The Disk of a real machine: a thin layer over node:fs, one promise per call. What is called for every job uses the
 * callbacks of node:fs, which take half the time of node:fs/promises.
 */
import fs from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type {
  Disk,
  DiskEntry,
  DiskFile,
  DiskSpace,
  DiskStat,
  EntryKind,
  EntryStat,
  OpenMode,
} from './env.ts';
import {
  closeFolderToOthers,
  FILE_MODE,
  FOLDER_MODE,
  makeDatabasePrivate,
  makePrivate,
} from './private-files.ts';

const { O_APPEND, O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = fs.constants;

export const OPEN_FLAGS: Record<OpenMode, string | number> = {
  read: 'r',
  write: 'r+',
  create: 'w+',
  exclusive: O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW,
  // The open of a pipe would wait for its other end.
  plain: O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
  append: O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK,
};

/** The modes that open plain files only. */
const PLAIN_ONLY: readonly OpenMode[] = ['plain', 'append'];

/** Names that are read from a folder at a time. */
const ENTRIES_AT_ONCE = 512;

export class RealFile implements DiskFile {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  async write(position: number, data: Uint8Array): Promise<void> {
    let done = 0;
    while (done < data.length) {
      done += await this.#writeSome(position + done, done === 0 ? data : data.subarray(done));
    }
  }

  #writeSome(position: number, data: Uint8Array): Promise<number> {
    return new Promise((resolve, reject) => {
      fs.write(this.#fd, data, 0, data.length, position, (error, written) => {
        if (error) reject(error);
        else resolve(written);
      });
    });
  }

  async read(position: number, length: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(length);
    let done = 0;
    while (done < length) {
      const got = await new Promise<number>((resolve, reject) => {
        fs.read(this.#fd, buffer, done, length - done, position + done, (error, read) =>
          error ? reject(error) : resolve(read),
        );
      });
      if (got === 0) break;
      done += got;
    }
    return buffer.subarray(0, done);
  }

  size(): Promise<number> {
    return new Promise((resolve, reject) => {
      fs.fstat(this.#fd, (error, stats) => (error ? reject(error) : resolve(stats.size)));
    });
  }

  datasync(): Promise<void> {
    return call((done) => fs.fdatasync(this.#fd, done));
  }

  truncate(size: number): Promise<void> {
    return call((done) => fs.ftruncate(this.#fd, size, done));
  }

  close(): Promise<void> {
    return call((done) => fs.close(this.#fd, done));
  }
}

/** Closes a file that its mode does not allow, and throws; makes one that is written private. */
export function checkOpened(fd: number, mode: OpenMode): void {
  if (PLAIN_ONLY.includes(mode) && !fs.fstatSync(fd).isFile()) {
    fs.closeSync(fd);
    throw Object.assign(new Error('it is no plain file'), { code: 'EINVAL' });
  }
  if (mode !== 'read' && mode !== 'plain') makePrivate(fd);
}

function kindOf(entry: fs.Dirent<Buffer> | fs.BigIntStats): EntryKind {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'folder';
  return entry.isSymbolicLink() ? 'link' : 'other';
}

export const entryStatOf = (stats: fs.BigIntStats): EntryStat => ({
  kind: kindOf(stats),
  size: Number(stats.size),
  device: String(stats.dev),
  identity: `${stats.ino}-${stats.birthtimeNs}`,
  modifiedMs: Number(stats.mtimeNs) / 1e6,
});

function entryOf(dirent: fs.Dirent<Buffer>): DiskEntry {
  const name = dirent.name.toString();
  return { name, kind: kindOf(dirent), isText: Buffer.from(name).equals(dirent.name) };
}

function openFile(path: string, flags: string | number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.open(path, flags, FILE_MODE, (error, fd) => (error ? reject(error) : resolve(fd)));
  });
}

function call(run: (done: (error: Error | null | undefined) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => run((error) => (error ? reject(error) : resolve())));
}

export class RealDisk implements Disk {
  async open(path: string, mode: OpenMode): Promise<DiskFile> {
    const fd = await openFile(path, OPEN_FLAGS[mode]);
    checkOpened(fd, mode);
    return new RealFile(fd);
  }

  async list(folder: string): Promise<string[]> {
    try {
      return (await fs.promises.readdir(folder)).sort();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
  }

  async *entries(folder: string): AsyncGenerator<readonly DiskEntry[]> {
    // The types of Node do not know that names can be bytes; names in UTF-8 would hide that a name is not.
    const options = { encoding: 'buffer' as BufferEncoding, bufferSize: ENTRIES_AT_ONCE };
    const dir = await fs.promises.opendir(folder, options);
    let piece: DiskEntry[] = [];
    for await (const dirent of dir) {
      piece.push(entryOf(dirent as unknown as fs.Dirent<Buffer>));
      if (piece.length < ENTRIES_AT_ONCE) continue;
      yield piece;
      piece = [];
    }
    if (piece.length > 0) yield piece;
  }

  lstat(path: string): Promise<EntryStat | undefined> {
    return new Promise((resolve, reject) => {
      fs.lstat(path, { bigint: true }, (error, stats) => {
        if (!error) resolve(entryStatOf(stats));
        else if (error.code === 'ENOENT' || error.code === 'ENOTDIR') resolve(undefined);
        else reject(error);
      });
    });
  }

  async stat(path: string): Promise<DiskStat | undefined> {
    try {
      const stats = await fs.promises.stat(path, { bigint: true });
      const identity = `${stats.ino}-${stats.birthtimeNs}`;
      return {
        size: Number(stats.size),
        isFolder: stats.isDirectory(),
        identity,
        links: Number(stats.nlink),
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  rename(from: string, to: string): Promise<void> {
    return call((done) => fs.rename(from, to, done));
  }

  remove(path: string): Promise<void> {
    return fs.promises.rm(path, { force: true });
  }

  async removeFolder(path: string): Promise<void> {
    try {
      await fs.promises.rmdir(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }

  async touch(path: string): Promise<void> {
    const now = Date.now() / 1000;
    await fs.promises.lutimes(path, now, now);
  }

  /**
   * Creates missing parents itself: Node's `recursive: true` never ends where the system refuses a folder, as below
   * /proc.
   */
  async makeFolder(path: string): Promise<void> {
    const failure = await this.#makeOne(path);
    if (failure === undefined) return;
    const parent = dirname(path);
    if (failure.code !== 'ENOENT' || parent === path) throw failure;
    await this.makeFolder(parent);
    const second = await this.#makeOne(path);
    if (second) throw second;
  }

  async makeNewFolder(path: string): Promise<void> {
    await call((done) => fs.mkdir(path, { mode: FOLDER_MODE }, done));
    await call((done) => fs.chmod(path, FOLDER_MODE, done));
  }

  /** Makes one folder; returns the error if the folder does not exist afterwards. */
  async #makeOne(path: string): Promise<NodeJS.ErrnoException | undefined> {
    try {
      await fs.promises.mkdir(path, { mode: FOLDER_MODE });
      // The umask may have taken permissions of the owner.
      await fs.promises.chmod(path, FOLDER_MODE);
    } catch (error) {
      // mkdir of an existing folder fails with other codes than EEXIST too: EROFS on a read-only disk, say.
      const found = await fs.promises.stat(path).catch(() => undefined);
      if (!found?.isDirectory()) return error as NodeJS.ErrnoException;
    }
    return undefined;
  }

  async closeToOthers(folder: string, isOurs: (name: string) => boolean): Promise<boolean> {
    return closeFolderToOthers(folder, isOurs);
  }

  async mayWrite(path: string): Promise<boolean> {
    try {
      await fs.promises.access(path, fs.constants.W_OK);
      return true;
    } catch (error) {
      // A read-only disk, say, is no matter of rights.
      return (error as NodeJS.ErrnoException).code !== 'EACCES';
    }
  }

  async space(path: string): Promise<DiskSpace> {
    const { bavail, bsize } = await fs.promises.statfs(path);
    return { freeBytes: bavail * bsize };
  }

  async syncFolder(path: string): Promise<void> {
    const fd = await openFile(path, 'r');
    try {
      await call((done) => fs.fsync(fd, done));
    } finally {
      await call((done) => fs.close(fd, done));
    }
  }

  /**
   * SQLite's exclusive lock is a POSIX record lock: the kernel drops it with the process, and a second opening
   * in the same process is refused too.
   */
  async lock(path: string): Promise<{ release(): Promise<void> } | undefined> {
    makeDatabasePrivate(path);
    const database = new DatabaseSync(path, { timeout: 0 });
    try {
      database.exec('PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE');
    } catch (error) {
      database.close();
      if (/locked|busy/i.test((error as Error).message)) return undefined;
      throw error;
    }
    return {
      async release() {
        database.close();
      },
    };
  }
}
