/**
 * A read-only view of a data folder in which the log ends where the intact part of it ends. What recovery reads through
 * this view is what can be salvaged.
 */
import { basename, dirname } from 'node:path';
import type { Disk, DiskEntry, DiskFile, DiskStat, EntryStat, OpenMode } from '../../../kit/env/env.ts';
import type { Records } from '../../records.ts';
import type { Paths } from '../layout.ts';
import { readRecords } from '../recover.ts';

/** The segments in the view by name, with the visible bytes of each. A segment with 0 bytes need not exist. */
export type LogCut = ReadonlyMap<string, number>;

export class CutDisk implements Disk {
  readonly #disk: Disk;
  readonly #log: string;
  readonly #cut: LogCut;

  constructor(disk: Disk, log: string, cut: LogCut) {
    this.#disk = disk;
    this.#log = log;
    this.#cut = cut;
  }

  async open(path: string, mode: OpenMode): Promise<DiskFile> {
    if (mode !== 'read') throw readOnly();
    if (dirname(path) !== this.#log) return this.#disk.open(path, mode);
    const bytes = this.#cut.get(basename(path));
    if (bytes === undefined)
      throw Object.assign(new Error(`${basename(path)} is cut off`), { code: 'ENOENT' });
    return bytes === 0 ? NO_BYTES : clipped(await this.#disk.open(path, mode), bytes);
  }

  async list(folder: string): Promise<string[]> {
    return folder === this.#log ? [...this.#cut.keys()].sort() : this.#disk.list(folder);
  }

  /** The log is listed by `list`, which knows the cut. */
  entries(folder: string): AsyncIterable<readonly DiskEntry[]> {
    return this.#disk.entries(folder);
  }

  stat(path: string): Promise<DiskStat | undefined> {
    return this.#disk.stat(path);
  }

  lstat(path: string): Promise<EntryStat | undefined> {
    return this.#disk.lstat(path);
  }

  async rename(): Promise<void> {
    throw readOnly();
  }

  async remove(): Promise<void> {
    throw readOnly();
  }

  async removeFolder(): Promise<void> {
    throw readOnly();
  }

  async makeFolder(): Promise<void> {
    throw readOnly();
  }

  async makeNewFolder(): Promise<void> {
    throw readOnly();
  }

  async touch(): Promise<void> {
    throw readOnly();
  }

  async syncFolder(): Promise<void> {
    throw readOnly();
  }

  async lock(): Promise<undefined> {
    throw readOnly();
  }
}

const readOnly = (): Error => Object.assign(new Error('the view is read-only'), { code: 'EROFS' });

function clipped(file: DiskFile, bytes: number): DiskFile {
  return {
    read: (position, length) => file.read(position, Math.max(0, Math.min(length, bytes - position))),
    size: async () => bytes,
    close: () => file.close(),
    ...NO_WRITES,
  };
}

const NO_WRITES = {
  async write(): Promise<void> {
    throw readOnly();
  },
  async datasync(): Promise<void> {
    throw readOnly();
  },
  async truncate(): Promise<void> {
    throw readOnly();
  },
};

const NO_BYTES: DiskFile = {
  read: async () => Buffer.alloc(0),
  size: async () => 0,
  close: async () => undefined,
  ...NO_WRITES,
};

/** The checkpoint that a recovery starts from, or `log` for the log from its beginning. */
export type RecoveryBase = 'checkpoint' | 'checkpoint.previous' | 'log';

/** Paths with which recovery finds only the manifest of this base. */
export function pathsFrom(paths: Paths, base: RecoveryBase): Paths {
  const absent = `${paths.temporaryManifest}.none`;
  const manifest = base === 'checkpoint' ? paths.manifest : base === 'log' ? absent : paths.previousManifest;
  return { ...paths, manifest, previousManifest: absent };
}

/** Recovers a folder from this base, with the code that a start uses; throws where a start would refuse. */
export const recoverFrom = async (disk: Disk, paths: Paths, base: RecoveryBase): Promise<Records> =>
  (await readRecords(disk, pathsFrom(paths, base))).records;
