/**
 * Reads what a data folder holds: the newest checkpoint that is whole, then the log behind it.
 */

import { join } from 'node:path';
import type { Recovery } from '../../core/ports/store.ts';
import type { Disk } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Change } from '../../model/records.ts';
import { Records } from '../records.ts';
import { type Contents, readLines } from './checkpoint/line.ts';
import { type Manifest, NO_CHECKPOINT, readManifest } from './checkpoint/manifest.ts';
import { readPart } from './checkpoint/merge.ts';
import type { Paths } from './layout.ts';
import { decodeChanges } from './log/codec.ts';
import { corruptAt, type LogEnd, type LogFrame, readLog } from './log/segments.ts';

/** What was read, and where the log goes on. */
export interface ReadFolder {
  readonly manifest: Manifest;
  readonly end: LogEnd;
  /** Set where the newest checkpoint was damaged and the one before it was used. */
  readonly fallback: string | undefined;
}

export async function recover(disk: Disk, paths: Paths, into: Recovery): Promise<ReadFolder> {
  const { manifest, fallback } = await recoverCheckpoint(disk, paths, into);
  const start = { nextSeq: manifest.seq + 1, chain: manifest.seq === 0 ? 0 : manifest.chain };
  const takeFrame = (frame: LogFrame): void => {
    let seq = frame.header.firstSeq;
    for (const change of changesOf(frame)) into.change(change, seq++);
  };
  const end = await readLog(disk, paths.log, start, takeFrame);
  if (!end.segment && manifest.seq > 0) {
    throw new OrchdError('STORE_CORRUPT', `the log after change ${manifest.seq} is missing`, {
      position: 'log:0',
    });
  }
  return { manifest, end, fallback };
}

/** Apart from the rest, so that nothing of what was read is kept for longer than it takes to hand it on. */
async function recoverCheckpoint(disk: Disk, paths: Paths, into: Recovery): Promise<Omit<ReadFolder, 'end'>> {
  const { manifest, loaded, fallback } = await loadCheckpoint(disk, paths);
  for (const bundle of loaded.bundles) into.job(bundle);
  for (const record of loaded.records) into.record(record);
  return { manifest, fallback };
}

/** All records of a folder, for those who want nothing else of it. */
export async function readRecords(disk: Disk, paths: Paths): Promise<ReadFolder & { records: Records }> {
  const records = new Records();
  const read = await recover(disk, paths, records);
  records.seq = read.end.nextSeq - 1;
  return { ...read, records };
}

/** A change that cannot be understood is named by its place. */
function changesOf({ header, payload, segment, position }: LogFrame): Change[] {
  try {
    return decodeChanges(payload, header.count);
  } catch (error) {
    const { code, message } = error as OrchdError;
    throw code === 'STORE_CORRUPT' ? corruptAt(segment, position, message) : error;
  }
}

async function loadCheckpoint(
  disk: Disk,
  paths: Paths,
): Promise<{ manifest: Manifest; loaded: Contents; fallback: string | undefined }> {
  let damage: OrchdError | undefined;
  for (const path of [paths.manifest, paths.previousManifest]) {
    try {
      const manifest = await readManifest(disk, path);
      if (!manifest) continue;
      const loaded = await loadParts(disk, paths, manifest);
      return { manifest, loaded, fallback: damage?.message };
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
  return { manifest: NO_CHECKPOINT, loaded: { bundles: [], records: [] }, fallback: undefined };
}

/** Nothing is handed on before all of it is read: another part may turn out to be damaged. */
async function loadParts(disk: Disk, paths: Paths, manifest: Manifest): Promise<Contents> {
  const loaded: Contents = { bundles: [], records: [] };
  for (const part of manifest.parts) readLines(await readPart(disk, paths, part), loaded);
  return loaded;
}

/** Cuts what a crash left behind the last whole frame, and makes sure that what was read stays. */
export async function settleTail(disk: Disk, paths: Paths, end: LogEnd): Promise<void> {
  if (!end.segment) return;
  const file = await disk.open(join(paths.log, end.segment.name), 'write');
  try {
    if (end.fileBytes > end.goodBytes) await file.truncate(end.goodBytes);
    await file.datasync();
  } finally {
    await file.close();
  }
}
