/**
 * Migrates everything from one store to another (docs/decisions/0010).
 *
 * V1  The target is marked before the first record is written, and the mark is removed only after everything was read
 *     back and found equal. A brain refuses to open a marked store.
 * V2  A job that the target holds is complete, so a second run skips it.
 * V3  Nothing that was written from an older state of the source is kept.
 */

import { OrchdError } from '../../model/errors.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { OtherRecord } from '../records.ts';
import type { LoadedJob, LoadedSession, MigrationTarget, StoreContents, StoreHead } from './contents.ts';
import { Digest, difference, type Totals } from './digest.ts';
import { loadedJobs, loadedSessions, loadSession, withSessionBodies } from './load-bodies.ts';
import { compareMarks, type MigrationMark, markOf } from './mark.ts';

/** Added to the epoch at the target, so that a brain started on the source by mistake, even often, has a lower one. */
const EPOCH_LEAP = 1000;

export interface MigrationProgress {
  readonly doing: 'copy' | 'verify';
  readonly jobs: number;
  readonly of: number;
}

export type OnProgress = (progress: MigrationProgress) => void;

export interface MigrationReport extends Totals {
  readonly from: string;
  readonly to: string;
  readonly seq: number;
  readonly epoch: number;
  /** True where the target held the result already, so that nothing was written. */
  readonly already: boolean;
}

export async function migrate(
  from: StoreContents,
  target: MigrationTarget,
  onProgress: OnProgress,
): Promise<MigrationReport> {
  const found = await target.inspect();
  if (found.is === 'work') return acceptOrRefuse(from, target, onProgress);
  const source = await from.hold();
  const mark = markOf(source.place, source.head.brain, source.head.seq);
  const keep = found.is === 'unfinished' && mayContinue(target, found.mark, mark);
  const { head } = source;
  const epoch = head.epoch + EPOCH_LEAP;
  await target.begin(mark, { ...head, epoch, brain: { ...head.brain, epoch } }, keep);
  const copied = await copy(source, target, onProgress);
  await source.assertHeld();
  await target.seal(await movedOthers(source, target));
  await verify(source, copied, target, onProgress);
  await target.finish();
  return { from: source.place, to: target.place, seq: head.seq, epoch, already: false, ...copied };
}

function mayContinue({ place }: MigrationTarget, found: MigrationMark, mark: MigrationMark): boolean {
  const verdict = compareMarks(found, mark);
  if (verdict !== 'foreign') return verdict === 'continue';
  const message = `${place} holds an unfinished move of another brain, from ${found.from}; finish that move, or empty the target`;
  throw new OrchdError('STORE_UNFINISHED', message);
}

async function copy(source: StoreContents, target: MigrationTarget, onProgress: OnProgress): Promise<Totals> {
  const digest = new Digest();
  for await (const jobs of loadedJobs(source)) {
    await target.put(await missing(target, jobs));
    for (const job of jobs) digest.addJob(job);
    onProgress({ doing: 'copy', jobs: digest.jobs, of: source.jobCount });
  }
  for await (const charges of source.charges()) {
    await target.putCharges(charges);
    for (const charge of charges) digest.addCharge(charge);
  }
  for await (const sessions of loadedSessions(source)) {
    await target.putSessions(await Promise.all(sessions.map((session) => moved(target, session))));
    for (const session of sessions) digest.addSession(session);
  }
  for await (const keys of source.keys()) {
    await target.putKeys(keys);
    for (const key of keys) digest.addKey(key);
  }
  return completed(digest, source);
}

/** The session with its bodies in the target. */
async function moved(target: MigrationTarget, session: LoadedSession): Promise<SessionRecord> {
  const { record, messages, metadata } = session;
  const put = async (text: string | undefined) =>
    text === undefined ? undefined : target.putBody(text, record);
  return withSessionBodies(record, await put(messages), await put(metadata));
}

/** The records that belong to no job; the bodies of sessions are moved with them. */
async function movedOthers(source: StoreContents, target: MigrationTarget): Promise<OtherRecord[]> {
  const others: OtherRecord[] = [];
  for (const record of source.others) {
    if (record.kind !== 'session') others.push(record);
    else others.push({ ...record, after: await moved(target, await loadSession(source, record.after)) });
  }
  return others;
}

async function missing(target: MigrationTarget, jobs: readonly LoadedJob[]): Promise<LoadedJob[]> {
  const present = await target.has(jobs.map(({ bundle }) => bundle.uid));
  return jobs.filter(({ bundle }) => !present.has(bundle.uid));
}

/** Adds the records that belong to no job. */
async function completed(digest: Digest, contents: StoreContents): Promise<Totals> {
  for (const record of contents.others) {
    if (record.kind !== 'session') digest.addOther(record);
    else digest.addLiveSession(record.id, await loadSession(contents, record.after));
  }
  digest.addBrain(contents.head.brain);
  return digest.totals();
}

async function totalsOf(contents: StoreContents, onProgress: OnProgress): Promise<Totals> {
  const digest = new Digest();
  for await (const jobs of loadedJobs(contents)) {
    for (const job of jobs) digest.addJob(job);
    onProgress({ doing: 'verify', jobs: digest.jobs, of: contents.jobCount });
  }
  for await (const charges of contents.charges()) for (const charge of charges) digest.addCharge(charge);
  for await (const sessions of loadedSessions(contents))
    for (const session of sessions) digest.addSession(session);
  for await (const keys of contents.keys()) for (const key of keys) digest.addKey(key);
  return completed(digest, contents);
}

async function verify(
  source: StoreContents,
  copied: Totals,
  target: MigrationTarget,
  onProgress: OnProgress,
): Promise<void> {
  const contents = await target.contents();
  try {
    const why =
      difference(copied, await totalsOf(contents, onProgress)) ?? headFault(source.head, contents.head);
    if (why === undefined) return;
    await target.invalidate();
    const message = `${target.place} does not hold what ${source.place} holds (${why}); it stays unfinished`;
    throw new OrchdError('STORE_UNFINISHED', message);
  } finally {
    await contents.close();
  }
}

/** The target must have every change of the source, and a higher epoch. */
function headFault(source: StoreHead, target: StoreHead): string | undefined {
  if (target.seq < source.seq) return `change ${target.seq} instead of ${source.seq}`;
  return target.epoch > source.epoch ? undefined : `epoch ${target.epoch}, not above ${source.epoch}`;
}

/** A target that holds work is never changed: it is accepted as the result of this same migration, or refused. */
async function acceptOrRefuse(
  source: StoreContents,
  target: MigrationTarget,
  onProgress: OnProgress,
): Promise<MigrationReport> {
  const report = await reportIfEqual(source, target, onProgress);
  if (report) return report;
  const message = `${target.place} holds work already; nothing was changed. Choose an empty target`;
  throw new OrchdError('INVALID_PARAMS', message);
}

async function reportIfEqual(
  source: StoreContents,
  target: MigrationTarget,
  onProgress: OnProgress,
): Promise<MigrationReport | undefined> {
  const contents = await target.contents();
  try {
    const { seq, epoch, brain } = contents.head;
    if (brain.owner !== source.head.brain.owner || headFault(source.head, contents.head)) return undefined;
    const totals = await totalsOf(source, onProgress);
    if (difference(totals, await totalsOf(contents, onProgress))) return undefined;
    return { from: source.place, to: target.place, seq, epoch, already: true, ...totals };
  } finally {
    await contents.close();
  }
}
