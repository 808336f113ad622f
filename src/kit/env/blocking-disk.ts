/**
 * The disk of processes whose event loop serves nobody else, such as the agents of a spool. Calls that work on names and on
 * small files block the loop; syncs and listings do not. A call on a thread of Node's pool costs more than such a call
 * itself, and threads that change the same folder wait for each other. Now and then a call goes to a thread all the same:
 * a long row of calls that block, as for a folder with many names, would keep timers and signals waiting to its end.
 *
 * Not for a brain: where a disk hangs, so does the whole process.
 */
import fs from 'node:fs';
import type { DiskFile, EntryStat, OpenMode } from './env.ts';
import { FILE_MODE, makePrivateFolder } from './private-files.ts';
import { checkOpened, entryStatOf, OPEN_FLAGS, RealDisk, RealFile } from './real-disk.ts';

/** The modes for the small files of folders in which foreign programs work. */
const SMALL_FILES: readonly OpenMode[] = ['exclusive', 'plain', 'append'];

/** Of so many calls one does not block. */
const CALLS_PER_TURN = 128;

export class BlockingDisk extends RealDisk {
  #calls = 0;

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    if (!SMALL_FILES.includes(mode) || this.#isTurnDue()) return super.open(path, mode);
    const fd = fs.openSync(path, OPEN_FLAGS[mode], FILE_MODE);
    checkOpened(fd, mode);
    return new SmallFile(fd);
  }

  override async lstat(path: string): Promise<EntryStat | undefined> {
    if (this.#isTurnDue()) return super.lstat(path);
    try {
      const stats = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
      return stats && entryStatOf(stats);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined;
      throw error;
    }
  }

  override async rename(from: string, to: string): Promise<void> {
    fs.renameSync(from, to);
  }

  override async makeNewFolder(path: string): Promise<void> {
    makePrivateFolder(path);
  }

  #isTurnDue(): boolean {
    return ++this.#calls % CALLS_PER_TURN === 0;
  }
}

/** A longer read, or write, does not block. */
const BLOCKING_BYTES = 64 * 1024;

class SmallFile extends RealFile {
  readonly #fd: number;

  constructor(fd: number) {
    super(fd);
    this.#fd = fd;
  }

  override async write(position: number, data: Uint8Array): Promise<void> {
    if (data.length > BLOCKING_BYTES) return super.write(position, data);
    let done = 0;
    while (done < data.length)
      done += fs.writeSync(this.#fd, data, done, data.length - done, position + done);
  }

  override async read(position: number, length: number): Promise<Buffer> {
    if (length > BLOCKING_BYTES) return super.read(position, length);
    const buffer = Buffer.allocUnsafe(length);
    let done = 0;
    for (let got = -1; got !== 0 && done < length; done += got)
      got = fs.readSync(this.#fd, buffer, done, length - done, position + done);
    return buffer.subarray(0, done);
  }

  override async size(): Promise<number> {
    return fs.fstatSync(this.#fd).size;
  }

  override async truncate(size: number): Promise<void> {
    fs.ftruncateSync(this.#fd, size);
  }

  override async close(): Promise<void> {
    fs.closeSync(this.#fd);
  }
}
