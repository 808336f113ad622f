/**
 * Finds the longest intact prefix of a damaged folder's changes, and writes it to a new folder. The original is only
 * read.
 */
import { dirname, join, relative } from 'node:path';
import type { Disk, DiskFile } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import type { JobState } from '../../../model/states.ts';
import { type Manifest, writeManifest } from '../checkpoint/manifest.ts';
import { blobNumber, type Paths, paths, segmentName } from '../layout.ts';
import type { Generation } from './checkpoint.ts';
import { reachFrom, type SegmentSurvey } from './log.ts';
import { stateHash } from './state-hash.ts';
import { CutDisk, type LogCut, type RecoveryBase, recoverFrom } from './view.ts';

export interface SalvagePlan {
  /** The checkpoint that the saved state starts from, or the log from its beginning. */
  readonly base: RecoveryBase;
  /** The last change that is saved. */
  readonly upTo: number;
  /** The position of the damage that ends the intact prefix; undefined where the log is intact to its end. */
  readonly position: string | undefined;
  readonly jobs: Readonly<Record<JobState, number>>;
  readonly lost: {
    /** The number of readable changes after the damage; those inside it cannot be counted. */
    readonly changes: number;
    /** Bytes of log from the damage on. */
    readonly bytes: number;
    /** The number of acknowledged changes that the index has seen and no file of the log holds any more, at least. */
    readonly missing: number;
    /** The number of ended jobs that are only in the original's index; the new index is made from the log. */
    readonly ended: number;
    /** The number of payloads and results that are missing or damaged; salvaging does not bring them back. */
    readonly bodies: number;
  };
}

/** The intact prefix: a checkpoint and the part of the log after it that is to be copied. */
export interface SalvagePrefix {
  readonly base: RecoveryBase;
  readonly manifest: Manifest | undefined;
  readonly upTo: number;
  readonly cut: LogCut;
  readonly position: string | undefined;
  readonly lost: { readonly changes: number; readonly bytes: number };
}

/** The longest intact prefix over all bases; undefined where there is none. */
export function findPrefix(
  generations: readonly Generation[],
  surveys: readonly SegmentSurvey[],
): SalvagePrefix | undefined {
  const bases: { base: RecoveryBase; manifest: Manifest | undefined }[] = generations
    .filter(({ contents }) => contents !== undefined)
    .map(({ check, manifest }) => ({ base: check, manifest }));
  if (surveys[0]?.firstSeq === 1) bases.push({ base: 'log', manifest: undefined });
  let best: SalvagePrefix | undefined;
  for (const { base, manifest } of bases) {
    const prefix = prefixFrom(base, manifest, surveys);
    // The newest checkpoint comes first; another base is preferred only where it reaches further.
    if (!best || prefix.upTo > best.upTo) best = prefix;
  }
  return best;
}

function prefixFrom(
  base: RecoveryBase,
  manifest: Manifest | undefined,
  surveys: readonly SegmentSurvey[],
): SalvagePrefix {
  const seq = manifest?.seq ?? 0;
  const { upTo, taken } = reachFrom(surveys, seq, manifest?.chain ?? 0);
  const last = taken.at(-1);
  const cut = new Map(
    [...segmentsBefore(surveys, seq), ...taken].map(({ name, goodBytes }) => [name, goodBytes]),
  );
  // Recovery requires a segment after the checkpoint, even an empty one.
  if (taken.length === 0 && seq > 0) cut.set(segmentName(seq + 1), 0);
  const beyond = surveys.filter(({ firstSeq }) => firstSeq > Math.max(upTo, last?.firstSeq ?? seq));
  return { base, manifest, upTo, cut, position: damageAt(upTo, last, beyond), lost: lossOf(last, beyond) };
}

/** The undamaged segments up to and with change `seq`, without a gap; they are copied because the ended jobs are in them. */
function segmentsBefore(surveys: readonly SegmentSurvey[], seq: number): SegmentSurvey[] {
  const trail: SegmentSurvey[] = [];
  let next = seq + 1;
  for (const survey of surveys.filter(({ firstSeq }) => firstSeq <= seq).reverse()) {
    if (survey.fault || survey.nextSeq !== next) break;
    trail.unshift(survey);
    if (survey.linkFault) break;
    next = survey.firstSeq;
  }
  return trail;
}

function damageAt(
  upTo: number,
  last: SegmentSurvey | undefined,
  beyond: readonly SegmentSurvey[],
): string | undefined {
  const fault = last?.fault;
  if (fault) return fault.torn && beyond.length === 0 ? undefined : `log/${last.name}:${fault.position}`;
  if (beyond.length > 0 || !last) return `log/${segmentName(upTo + 1)}:0`;
  return undefined;
}

function lossOf(
  last: SegmentSurvey | undefined,
  beyond: readonly SegmentSurvey[],
): { changes: number; bytes: number } {
  let changes = last?.beyond.changes ?? 0;
  // A torn frame is not counted: its write was never acknowledged.
  let bytes = last?.fault && !last.fault.torn ? last.fileBytes - last.goodBytes : 0;
  for (const survey of beyond) {
    changes += survey.nextSeq - survey.firstSeq + survey.beyond.changes;
    bytes += survey.fileBytes;
  }
  return { changes, bytes };
}

/** A view of the folder that shows only the prefix. */
export const viewOf = (disk: Disk, where: Paths, prefix: SalvagePrefix): Disk =>
  new CutDisk(disk, where.log, prefix.cut);

/** Writes a prefix to a new folder; `to` must not exist, or be empty. */
export async function writePrefix(disk: Disk, from: Paths, prefix: SalvagePrefix, to: string): Promise<void> {
  await checkTarget(disk, from.folder, to);
  // The copy has another name until it is complete, so that half a copy is not taken for a data folder.
  const unfinished = paths(`${to}.unfinished`);
  if (await disk.stat(unfinished.folder)) {
    throw new OrchdError('INVALID_PARAMS', `${unfinished.folder} is in the way; remove it first`);
  }
  const { folder, log, parts, blobs } = unfinished;
  for (const path of [folder, log, parts, blobs]) await disk.makeFolder(path);
  const view = viewOf(disk, from, prefix);
  for (const name of prefix.cut.keys()) await copy(view, join(from.log, name), disk, join(log, name));
  for (const { name } of prefix.manifest?.parts ?? []) {
    await copy(disk, join(from.parts, name), disk, join(parts, name));
  }
  for (const name of await disk.list(from.blobs)) {
    if (blobNumber(name) !== undefined) await copy(disk, join(from.blobs, name), disk, join(blobs, name));
  }
  // Without the keys, no body of a session could be read.
  if (await disk.stat(from.keys)) await copy(disk, from.keys, disk, unfinished.keys);
  for (const path of [log, parts, blobs]) await disk.syncFolder(path);
  if (prefix.manifest) await writeManifest(disk, unfinished, prefix.manifest);
  await verify(disk, from, prefix, unfinished);
  await disk.syncFolder(folder);
  await disk.rename(folder, to);
  await disk.syncFolder(dirname(to));
}

async function checkTarget(disk: Disk, from: string, to: string): Promise<void> {
  const inside = relative(from, to);
  if (inside === '' || !(inside.startsWith('..') || inside.startsWith('/'))) {
    throw new OrchdError('INVALID_PARAMS', 'the new folder must be outside the damaged one');
  }
  const stat = await disk.stat(to);
  if (stat && (!stat.isFolder || (await disk.list(to)).length > 0)) {
    throw new OrchdError('INVALID_PARAMS', `${to} exists already; name a folder that does not`);
  }
}

/** Throws where the copy does not recover to the same records as the view of the original. */
async function verify(disk: Disk, from: Paths, prefix: SalvagePrefix, written: Paths): Promise<void> {
  const expected = stateHash(await recoverFrom(viewOf(disk, from, prefix), from, prefix.base));
  const base = prefix.manifest ? 'checkpoint' : 'log';
  if (stateHash(await recoverFrom(disk, written, base)) === expected) return;
  throw new OrchdError('STORE_FAILED', 'the copy does not recover to the same state; try another disk');
}

const CHUNK_BYTES = 2 ** 20;

async function copy(source: Disk, from: string, target: Disk, to: string): Promise<void> {
  const input = await source.open(from, 'read');
  let output: DiskFile | undefined;
  try {
    output = await target.open(to, 'create');
    const bytes = await input.size();
    for (let at = 0; at < bytes; at += CHUNK_BYTES) {
      await output.write(at, await input.read(at, Math.min(CHUNK_BYTES, bytes - at)));
    }
    await output.datasync();
  } finally {
    await output?.close();
    await input.close();
  }
}
