/**
 * Rebuilds the state from a data folder: the newest checkpoint that is whole, then the log behind it.
 */
import { join } from 'node:path';
import type { JobBundle } from '../../core/ports.ts';
import { JobEntry, type WritableRecords } from '../../core/state/job-entry.ts';
import type { State } from '../../core/state/state.ts';
import type { Disk } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { BrainRecord, Change, FailureRecord, LeaseRecord } from '../../model/records.ts';
import { isOpen } from '../../model/states.ts';
import { upcast } from '../../model/upcast.ts';
import { isEnded, type KeptRecord, linesOf, readBundle, readKept, readLine } from './bundle-line.ts';
import { readPart } from './checkpoint.ts';
import { decodeChanges } from './codec.ts';
import { Delta } from './delta.ts';
import type { Paths } from './layout.ts';
import { type Manifest, NO_CHECKPOINT, readManifest } from './manifest.ts';
import { corruptAt, type LogEnd, type LogFrame, listSegments, readLog } from './segments.ts';

export interface Recovered {
  readonly manifest: Manifest;
  readonly end: LogEnd;
  /** Set where the newest checkpoint was damaged and the one before it was used. */
  readonly fallback: string | undefined;
}

interface Loaded {
  readonly bundles: JobBundle[];
  readonly failures: [string, FailureRecord][];
  readonly leases: [string, LeaseRecord][];
  readonly kept: KeptRecord[];
  brain: BrainRecord | undefined;
}

export async function recover(disk: Disk, paths: Paths, state: State, now: number): Promise<Recovered> {
  const { manifest, loaded, fallback } = await loadCheckpoint(disk, paths);
  restore(state, manifest, loaded, now);
  const start = { nextSeq: manifest.seq + 1, chain: manifest.seq === 0 ? 0 : manifest.chain };
  const applyFrame = (frame: LogFrame): void => {
    for (const change of changesOf(frame)) state.apply(change, now);
  };
  const end = await readLog(disk, paths.log, start, applyFrame);
  if (!end.segment && manifest.seq > 0) {
    throw new OrchdError('STORE_CORRUPT', `the log after change ${manifest.seq} is missing`, {
      position: 'log:0',
    });
  }
  return { manifest, end, fallback };
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
): Promise<{ manifest: Manifest; loaded: Loaded; fallback: string | undefined }> {
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
  return {
    manifest: NO_CHECKPOINT,
    loaded: { bundles: [], failures: [], leases: [], kept: [], brain: undefined },
    fallback: undefined,
  };
}

async function loadParts(disk: Disk, paths: Paths, manifest: Manifest): Promise<Loaded> {
  const loaded: Loaded = { bundles: [], failures: [], leases: [], kept: [], brain: undefined };
  for (const part of manifest.parts) {
    for (const text of linesOf(await readPart(disk, paths, part))) {
      const line = readLine(text);
      if (line.tag === 'F') loaded.failures.push([line.id, upcast('failure', JSON.parse(line.json))]);
      else if (line.tag === 'H') loaded.leases.push([line.id, upcast('lease', JSON.parse(line.json))]);
      else if (line.tag === 'K') loaded.kept.push(readKept(line));
      else if (line.tag === 'B') loaded.brain = upcast('brain', JSON.parse(line.json));
      else loaded.bundles.push(readBundle(line));
    }
  }
  return loaded;
}

function restore(state: State, manifest: Manifest, loaded: Loaded, now: number): void {
  loaded.bundles.sort((a, b) => a.ask.n - b.ask.n);
  for (const bundle of loaded.bundles) state.restore(entryOf(bundle), now);
  for (const [id, failure] of loaded.failures) state.restoreFailure(id, failure);
  for (const [id, lease] of loaded.leases) state.leases.set(id, lease);
  for (const record of loaded.kept) state.keep(record);
  state.brain = loaded.brain;
  state.seq = manifest.seq;
}

function entryOf(bundle: JobBundle): JobEntry {
  const entry = new JobEntry(bundle.uid, bundle.ask, bundle.job, bundle.seq);
  const records: WritableRecords = entry;
  const past = bundle.attempts.filter((attempt) => !isOpen(attempt.state));
  records.open = bundle.attempts.find((attempt) => isOpen(attempt.state));
  if (past.length > 0) records.past = past;
  return entry;
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

/** Every job that the log saw from its admission to its end, for an index that must be made anew. */
export async function endedInLog(
  disk: Disk,
  paths: Paths,
  onBundles: (bundles: JobBundle[]) => Promise<void>,
): Promise<void> {
  const first = (await listSegments(disk, paths.log))[0];
  if (!first) return;
  const delta = new Delta(0);
  const found: JobBundle[] = [];
  await readLog(disk, paths.log, { nextSeq: first.firstSeq, chain: undefined }, ({ header, payload }) => {
    decodeChanges(payload, header.count).forEach((change, at) => {
      delta.add(change, header.firstSeq + at);
      if (change.kind !== 'job' && change.kind !== 'attempt') return;
      const uid = change.kind === 'job' ? change.id : (change.after?.job ?? '');
      const bundle = delta.dropEnded(uid, Number.POSITIVE_INFINITY);
      if (bundle) found.push(bundle);
    });
  });
  for (const uid of delta.jobs.keys()) {
    const bundle = delta.bundle(uid, undefined);
    if (bundle && isEnded(bundle)) found.push(bundle);
  }
  await onBundles(found);
}
