/** Rebuilds the index of ended jobs, and the archive of sessions in it, from the log and the checkpoint. */
import type { SessionName } from '../../../core/ports/sessions.ts';
import type { JobBundle, Seq } from '../../../core/ports/store.ts';
import type { Disk } from '../../../kit/env/env.ts';
import type { Change } from '../../../model/records.ts';
import type { AskOf } from '../../charges.ts';
import { isEnded } from '../../records.ts';
import { sessionText } from '../../session-text.ts';
import { Delta } from '../checkpoint/delta.ts';
import { blobNumber, type Paths } from '../layout.ts';
import { decodeChanges } from '../log/codec.ts';
import { listSegments, readLog } from '../log/segments.ts';
import { readRecords, syncTail } from '../recover.ts';
import { blobRange, historyRow, type LogPoint } from './history.ts';
import { RebuiltCharges } from './rebuilt-charges.ts';
import { RebuiltSessions } from './rebuilt-sessions.ts';

export interface RebuiltHistory {
  /** The first change that is still in the log: jobs that ended before it are only found if the checkpoint has them. */
  readonly from: Seq;
  /** The change up to which the index is complete. */
  readonly upTo: Seq;
}

/** Writes the archive of sessions, as Background does. */
interface SessionWriter {
  archive(rows: string): Promise<void>;
  dropSessions(sessions: readonly SessionName[]): Promise<void>;
}

export interface RebuildOrder {
  /** Writes joined rows to the index, as Background.index() does. */
  readonly put: (rows: string, watermark: number, log?: LogPoint, charges?: string) => Promise<void>;
  /** Where the archived sessions are written to. */
  readonly archive: SessionWriter;
  /**
   * Jobs of the log that ended before this instant may have been purged: those whose bodies are gone were, and are left
   * out. The others are indexed again, and the next purge deletes them. Their age alone decides nothing, because the
   * clock may be wrong.
   */
  readonly keptSince: number;
  /** The watermark to end with; undefined for the end of the log, which only a log that nobody writes to has. */
  readonly watermark: number | undefined;
  readonly logEnd: LogPoint | undefined;
}

/**
 * Indexes the ended jobs of the checkpoint, and those of the log. Entries that the index has already stay in it. A brain
 * may write to the log meanwhile: what it ends then, it indexes itself.
 */
export async function rebuildHistory(
  disk: Disk,
  paths: Paths,
  { put, archive, keptSince, watermark, logEnd }: RebuildOrder,
): Promise<RebuiltHistory> {
  // The folder is read a second time, because the store cannot read the brain's memory; a rebuild is rare.
  const { records, end } = await readRecords(disk, paths);
  // A live job is left out, so the change that made it live again must not be lost in a power cut.
  await syncTail(disk, paths, end);
  const charges = new RebuiltCharges(records);
  const ended = [...records.jobs.values()].filter(isEnded);
  for (const { uid } of ended) records.jobs.delete(uid);
  const hasBodies = await bodyCheck(disk, paths);
  const onBundles = async (bundles: readonly JobBundle[]): Promise<void> => {
    // A job with the same uid may be live again.
    const kept = bundles.filter((bundle) => {
      const { uid, seq, job } = bundle;
      const wasPurged = (job.endedAt ?? 0) < keptSince && !hasBodies(bundle);
      return !wasPurged && seq <= records.seq && !records.jobs.has(uid);
    });
    await put(kept.map((bundle) => historyRow(bundle)).join(''), 0);
  };
  const sessions = new RebuiltSessions();
  await endedInLog(disk, paths, onBundles, (change, seq, askOf) => {
    charges.change(change, seq, askOf);
    if (seq <= records.seq) sessions.change(change);
  });
  await archive.archive(sessions.archived.map((record) => `${sessionText(record)}\n`).join(''));
  await archive.dropSessions(sessions.deleted);
  await put(
    ended.map((bundle) => historyRow(bundle)).join(''),
    watermark ?? records.seq,
    logEnd,
    charges.rows,
  );
  const first = (await listSegments(disk, paths.log))[0];
  return { from: first?.firstSeq ?? records.seq + 1, upTo: records.seq };
}

/** A check whether the blob files that a job refers to are there. */
async function bodyCheck(disk: Disk, paths: Paths): Promise<(bundle: JobBundle) => boolean> {
  const files = new Set((await disk.list(paths.blobs)).map(blobNumber));
  return (bundle) => {
    const range = blobRange(bundle);
    return !range || (files.has(range.low) && files.has(range.high));
  };
}

/**
 * Calls `onBundles` with every job that the log contains from its admission to its end, and `onChange` with every change
 * and what finds the requests of the jobs that have not ended by then.
 */
export async function endedInLog(
  disk: Disk,
  paths: Paths,
  onBundles: (bundles: JobBundle[]) => Promise<void>,
  onChange?: (change: Change, seq: Seq, askOf: AskOf) => void,
): Promise<void> {
  const first = (await listSegments(disk, paths.log))[0];
  if (!first) return;
  const delta = new Delta(0);
  const found: JobBundle[] = [];
  await readLog(disk, paths.log, { nextSeq: first.firstSeq, chain: undefined }, ({ header, payload }) => {
    decodeChanges(payload, header.count).forEach((change, at) => {
      delta.add(change, header.firstSeq + at);
      onChange?.(change, header.firstSeq + at, (uid) => delta.jobs.get(uid)?.ask);
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
