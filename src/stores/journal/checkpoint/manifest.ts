/**
 * The manifest of a checkpoint (checkpoint.json): the list of part files that hold all records as of one sequence. The
 * current and the previous manifest are kept; a new one takes its place by rename, and the folder is synced after each
 * rename.
 */
import { crc32 } from 'node:zlib';
import type { Disk } from '../../../kit/env/env.ts';
import { writeSynced } from '../../../kit/whole-file.ts';
import { OrchdError } from '../../../model/errors.ts';
import { FORMAT, type Paths } from '../layout.ts';
import { readWhole } from '../log/segments.ts';

/** One part file. */
export interface Part {
  readonly name: string;
  readonly bytes: number;
  readonly crc: number;
  readonly records: number;
}

export interface Manifest {
  readonly format: number;
  /** The last change that the checkpoint contains. */
  readonly seq: number;
  /** The payload checksum of the log's frame that ends with that change. */
  readonly chain: number;
  readonly at: number;
  /** Ended jobs up to this change were left out: the index held them. Undefined where an earlier version wrote it. */
  readonly indexedUpTo?: number;
  readonly parts: readonly Part[];
}

export const NO_CHECKPOINT: Manifest = { format: FORMAT, seq: 0, chain: 0, at: 0, parts: [] };

export async function readManifest(disk: Disk, path: string): Promise<Manifest | undefined> {
  if (!(await disk.stat(path))) return undefined;
  const text = (await readWhole(disk, path)).toString('utf8');
  const manifest = parse(text);
  if (!manifest) {
    throw new OrchdError('STORE_CORRUPT', `${nameOf(path)} does not match its checksum`, {
      position: `${nameOf(path)}:0`,
    });
  }
  if (manifest.format > FORMAT) {
    throw new OrchdError(
      'STORE_TOO_NEW',
      `the data folder has format ${manifest.format}; this orchd knows formats up to ${FORMAT}`,
    );
  }
  return manifest;
}

function parse(text: string): Manifest | undefined {
  try {
    const { manifest, crc } = JSON.parse(text) as { manifest: Manifest; crc: number };
    return crc32(JSON.stringify(manifest)) === crc ? manifest : undefined;
  } catch {
    return undefined;
  }
}

/** With `keepCurrent` false the current manifest is damaged: it is overwritten, and the previous one stays. */
export async function writeManifest(
  disk: Disk,
  paths: Paths,
  manifest: Manifest,
  keepCurrent = true,
): Promise<void> {
  const crc = crc32(JSON.stringify(manifest));
  await writeSynced(disk, paths.temporaryManifest, `${JSON.stringify({ manifest, crc })}\n`);
  if (keepCurrent && (await disk.stat(paths.manifest))) {
    await disk.rename(paths.manifest, paths.previousManifest);
    await disk.syncFolder(paths.folder);
  }
  await disk.rename(paths.temporaryManifest, paths.manifest);
  await disk.syncFolder(paths.folder);
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
