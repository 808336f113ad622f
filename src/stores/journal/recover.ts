/**
 * Recovers the records of a data folder: the newest checkpoint that is undamaged, then the log after it.
 */

import { join } from 'node:path';
import type { Disk } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { type BrainRecord, logOwner } from '../../model/records.ts';
import { Records } from '../records.ts';
import { type CheckpointContents, readLines } from './checkpoint/line.ts';
import { type Manifest, NO_CHECKPOINT, readManifest } from './checkpoint/manifest.ts';
import { readPart } from './checkpoint/merge.ts';
import type { Paths } from './layout.ts';
import { decodeChanges } from './log/codec.ts';
import { LastChanges } from './log/last-changes.ts';
import { corruptAt, type LogEnd, type LogFrame, type LogStart, readLog } from './log/segments.ts';
import { lostEnd } from './lost-end.ts';
import { type FolderRecovery, passOn } from './recovered-log.ts';

export interface RecoveredFolder {
  /** The checkpoint that was used; NO_CHECKPOINT where there is none. */
  readonly manifest: Manifest;
  readonly end: LogEnd;
  /** Why the newest checkpoint was not used; undefined where it was. */
  readonly fallback: string | undefined;
  /** The owner in the brain's record; undefined in a log without that record. */
  readonly owner: string | undefined;
}

type LoadedCheckpoint = Pick<RecoveredFolder, 'manifest' | 'fallback'> & {
  /** The last change that either checkpoint contains, whether or not its parts are intact. */
  readonly newestSeq: number;
};

export async function recover(disk: Disk, paths: Paths, into: FolderRecovery): Promise<RecoveredFolder> {
  const { manifest, loaded, fallback, newestSeq } = await loadCheckpoint(disk, paths);
  const start = { nextSeq: manifest.seq + 1, chain: manifest.seq === 0 ? 0 : manifest.chain };
  const log = new LastChanges();
  const end = await readLog(disk, paths.log, start, (frame) => takeFrame(frame, log));
  if (!end.segment && manifest.seq > 0) {
    throw new OrchdError('STORE_CORRUPT', `the log after change ${manifest.seq} is missing`, {
      position: 'log:0',
    });
  }
  if (end.nextSeq <= newestSeq) throw lostEnd(end, newestSeq, 'checkpoint.json');
  let brain: BrainRecord | undefined;
  const noting: FolderRecovery = {
    job: (bundle) => into.job(bundle),
    record: (record) => {
      if (record.kind === 'brain') brain = record.after;
      into.record(record);
    },
    unlisted: (...attempt) => into.unlisted?.(...attempt),
  };
  try {
    passOn(loaded, log, noting);
  } catch (error) {
    if ((error as OrchdError).code === 'STORE_CORRUPT') await nameDamage(disk, paths, start);
    throw error;
  }
  return { manifest, end, fallback, owner: brain && logOwner(brain) };
}

/** Recovers a folder into plain records, for code that runs no brain on it; `watched` may look at what is recovered. */
export async function readRecords(
  disk: Disk,
  paths: Paths,
  watched: (records: Records) => FolderRecovery = (records) => records,
): Promise<RecoveredFolder & { records: Records }> {
  const records = new Records();
  const read = await recover(disk, paths, watched(records));
  records.seq = read.end.nextSeq - 1;
  return { ...read, records };
}

function takeFrame({ header, payload, segment, position }: LogFrame, log: LastChanges): void {
  naming(segment, position, () => log.add(payload, header.firstSeq, header.count));
}

/** Decodes every change of a log, of which one cannot be decoded, for an error that names its frame. */
async function nameDamage(disk: Disk, paths: Paths, start: LogStart): Promise<void> {
  await readLog(disk, paths.log, start, ({ header, payload, segment, position }) => {
    naming(segment, position, () => decodeChanges(payload, header.count));
  });
}

/** Adds the position of the frame to the error of a change that cannot be decoded. */
function naming(segment: string, position: number, decode: () => void): void {
  try {
    decode();
  } catch (error) {
    const { code, message } = error as OrchdError;
    throw code === 'STORE_CORRUPT' ? corruptAt(segment, position, message) : error;
  }
}

async function loadCheckpoint(
  disk: Disk,
  paths: Paths,
): Promise<LoadedCheckpoint & { readonly loaded: CheckpointContents }> {
  let damage: OrchdError | undefined;
  let newestSeq = 0;
  for (const path of [paths.manifest, paths.previousManifest]) {
    try {
      const manifest = await readManifest(disk, path);
      if (!manifest) continue;
      newestSeq = Math.max(newestSeq, manifest.seq);
      const loaded = await loadParts(disk, paths, manifest);
      return { manifest, loaded, fallback: damage?.message, newestSeq };
    } catch (error) {
      const code = (error as { code?: string }).code;
      if (code !== 'STORE_CORRUPT' && code !== 'ENOENT') throw error;
      damage ??=
        error instanceof OrchdError
          ? error
          : new OrchdError('STORE_CORRUPT', 'a part of the checkpoint is missing');
    }
  }
  if (damage) throw damage;
  return { manifest: NO_CHECKPOINT, loaded: { bundles: [], records: [] }, fallback: undefined, newestSeq };
}

/** Reads all parts before any record is passed on, since a later part may turn out to be damaged. */
async function loadParts(disk: Disk, paths: Paths, manifest: Manifest): Promise<CheckpointContents> {
  const loaded: CheckpointContents = { bundles: [], records: [] };
  for (const part of manifest.parts) readLines(await readPart(disk, paths, part), loaded);
  return loaded;
}

/** Syncs the last segment: the ones before it were synced before it was begun. */
export async function syncTail(disk: Disk, paths: Paths, end: LogEnd): Promise<void> {
  if (!end.segment) return;
  const file = await disk.open(join(paths.log, end.segment.name), 'write');
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** Truncates the last segment after its last whole frame, and syncs what was read (J2 in journal.ts). */
export async function truncateAndSyncTail(disk: Disk, paths: Paths, end: LogEnd): Promise<void> {
  if (!end.segment) return;
  const file = await disk.open(join(paths.log, end.segment.name), 'write');
  try {
    if (end.fileBytes > end.goodBytes) await file.truncate(end.goodBytes);
    await file.datasync();
  } finally {
    await file.close();
  }
}
