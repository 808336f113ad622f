/**
 * A data folder seen as if its log ended at a cut: what recovery makes of that view is what can be saved. Nothing
 * can be written through it.
 */
import { basename, dirname } from 'node:path';
import type { Disk, DiskFile, DiskStat, OpenMode } from '../../../kit/env/env.ts';
import type { Records } from '../../records.ts';
import type { Paths } from '../layout.ts';
import { readRecords } from '../recover.ts';

/** The segments to be seen, with the bytes of each; one of none need not exist. */
export type Cut = ReadonlyMap<string, number>;

export class CutDisk implements Disk {
  readonly #disk: Disk;
  readonly #log: string;
  readonly #cut: Cut;

  constructor(disk: Disk, log: string, cut: Cut) {
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

  stat(path: string): Promise<DiskStat | undefined> {
    return this.#disk.stat(path);
  }

  async rename(): Promise<void> {
    throw readOnly();
  }

  async remove(): Promise<void> {
    throw readOnly();
  }

  async makeFolder(): Promise<void> {
    throw readOnly();
  }

  async syncFolder(): Promise<void> {
    throw readOnly();
  }

  async lock(): Promise<undefined> {
    throw readOnly();
  }
}

const readOnly = (): Error => Object.assign(new Error('a view is not written'), { code: 'EROFS' });

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

/** Which checkpoint a recovery starts from. */
export type Base = 'checkpoint' | 'checkpoint.previous' | 'log';

/** Names under which the wanted checkpoint is found first and the others are not found at all. */
export function seenFrom(paths: Paths, base: Base): Paths {
  const absent = `${paths.temporaryManifest}.none`;
  const manifest = base === 'checkpoint' ? paths.manifest : base === 'log' ? absent : paths.previousManifest;
  return { ...paths, manifest, previousManifest: absent };
}

/** What recovery itself makes of a folder from that base on; throws where it would refuse. */
export const rebuild = async (disk: Disk, paths: Paths, base: Base): Promise<Records> =>
  (await readRecords(disk, seenFrom(paths, base))).records;
