/** Rebuilds the index of ended jobs from the log and the checkpoint. */
import type { JobBundle, Seq } from '../../../core/ports/store.ts';
import type { Disk } from '../../../kit/env/env.ts';
import { isEnded } from '../../records.ts';
import type { Background } from '../background.ts';
import { Delta } from '../checkpoint/delta.ts';
import type { Paths } from '../layout.ts';
import { decodeChanges } from '../log/codec.ts';
import { listSegments, readLog } from '../log/segments.ts';
import { readRecords } from '../recover.ts';
import { historyRow, type LogPoint } from './history.ts';

export interface RebuiltHistory {
  /** The first change that is still in the log: jobs that ended before it are only found if the checkpoint has them. */
  readonly from: Seq;
  /** The change up to which the index is complete. */
  readonly upTo: Seq;
}

/**
 * Indexes the ended jobs of the checkpoint, and those of the log that ended at or after `keptSince`. Entries that the
 * index has already stay in it.
 */
export async function rebuildHistory(
  disk: Disk,
  paths: Paths,
  background: Background,
  keptSince: number,
  logEnd: LogPoint,
): Promise<RebuiltHistory> {
  // The folder is read a second time, because the store cannot read the brain's memory; a rebuild is rare.
  const { records } = await readRecords(disk, paths);
  const ended = [...records.jobs.values()].filter(isEnded);
  for (const { uid } of ended) records.jobs.delete(uid);
  await endedInLog(disk, paths, async (bundles) => {
    // A job with the same uid may be live again.
    const kept = bundles.filter(({ uid, job }) => (job.endedAt ?? 0) >= keptSince && !records.jobs.has(uid));
    await background.index(kept.map(historyRow).join(''), 0);
  });
  await background.index(ended.map(historyRow).join(''), records.seq, logEnd);
  const first = (await listSegments(disk, paths.log))[0];
  return { from: first?.firstSeq ?? records.seq + 1, upTo: records.seq };
}

/** Calls `onBundles` with every job that the log contains from its admission to its end. */
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
