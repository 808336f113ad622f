/** The real disk, with a book of everything that is written to it and in which order. */
import { readFileSync } from 'node:fs';
import type { Disk, DiskFile } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';

export interface DiskOp {
  readonly op: 'create' | 'write' | 'sync' | 'rename' | 'sync folder' | 'remove' | 'truncate';
  readonly path: string;
  readonly to?: string;
  readonly bytes: number;
  readonly at: number;
}

/** A disk that was not called for this many turns of the loop is at rest. */
const QUIET_TURNS = 20;

export class RecordingDisk {
  readonly ops: DiskOp[] = [];
  readonly disk: Disk;
  readonly #now: () => number;

  #underWay = 0;

  constructor(now: () => number = () => 0, disk: Disk = realEnv().disk) {
    this.#now = now;
    const real = this.#watched(disk);
    this.disk = {
      open: async (path, mode) => {
        const file = this.#watched(await real.open(path, mode));
        if (mode === 'create') this.#note('create', path);
        return this.#recorded(path, file);
      },
      list: (folder) => real.list(folder),
      entries: (folder) => disk.entries(folder),
      stat: (path) => real.stat(path),
      lstat: (path) => real.lstat(path),
      rename: async (from, to) => {
        await real.rename(from, to);
        this.#note('rename', from, 0, to);
      },
      remove: async (path) => {
        await real.remove(path);
        this.#note('remove', path);
      },
      removeFolder: async (path) => {
        await real.removeFolder(path);
        this.#note('remove', path);
      },
      makeFolder: (path) => real.makeFolder(path),
      makeNewFolder: (path) => real.makeNewFolder(path),
      touch: (path) => real.touch(path),
      syncFolder: async (path) => {
        await real.syncFolder(path);
        this.#note('sync folder', path);
      },
      lock: (path) => real.lock(path),
    };
  }

  /** Returns when nobody uses the disk any more, however slow it is. */
  async rest(): Promise<void> {
    for (let quietTurns = 0; quietTurns < QUIET_TURNS; quietTurns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#underWay > 0) quietTurns = 0;
    }
  }

  /** Counts the calls that have not come back. */
  #watched<T extends object>(part: T): T {
    return new Proxy(part, {
      get: (target, name) => {
        const call = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
        return async (...args: unknown[]) => {
          this.#underWay++;
          return call.apply(target, args).finally(() => this.#underWay--);
        };
      },
    });
  }

  get bytesWritten(): number {
    return this.ops.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #note(op: DiskOp['op'], path: string, bytes = 0, to?: string): void {
    this.ops.push({ op, path, bytes, at: this.#now(), ...(to !== undefined && { to }) });
  }

  #recorded(path: string, file: DiskFile): DiskFile {
    return {
      read: (position, length) => file.read(position, length),
      size: () => file.size(),
      close: () => file.close(),
      write: async (position, data) => {
        await file.write(position, data);
        this.#note('write', path, data.length);
      },
      datasync: async () => {
        await file.datasync();
        this.#note('sync', path);
      },
      truncate: async (size) => {
        await file.truncate(size);
        this.#note('truncate', path);
      },
    };
  }
}

/**
 * Every byte this process has handed to write calls, whoever did it: threads and SQLite too. Undefined where the
 * system does not say.
 */
export function bytesWrittenByProcess(): number | undefined {
  try {
    const line = /^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'));
    return line ? Number(line[1]) : undefined;
  } catch {
    return undefined;
  }
}
