/** The Disk of a real machine: a thin layer over node:fs, one promise per call. */
import fs from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Disk, DiskFile, DiskSpace, DiskStat, OpenMode } from './env.ts';
import {
  closeFolderToOthers,
  FILE_MODE,
  FOLDER_MODE,
  makeDatabasePrivate,
  makePrivate,
} from './private-files.ts';

const FLAGS: Record<OpenMode, string> = { read: 'r', write: 'r+', create: 'w+' };

class RealFile implements DiskFile {
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

function call(run: (done: (error: Error | null | undefined) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => run((error) => (error ? reject(error) : resolve())));
}

export class RealDisk implements Disk {
  async open(path: string, mode: OpenMode): Promise<DiskFile> {
    const fd = await new Promise<number>((resolve, reject) => {
      fs.open(path, FLAGS[mode], FILE_MODE, (error, opened) => (error ? reject(error) : resolve(opened)));
    });
    if (mode !== 'read') makePrivate(fd);
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

  async space(path: string): Promise<DiskSpace> {
    const { bavail, bsize } = await fs.promises.statfs(path);
    return { freeBytes: bavail * bsize };
  }

  async syncFolder(path: string): Promise<void> {
    const handle = await fs.promises.open(path, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
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
