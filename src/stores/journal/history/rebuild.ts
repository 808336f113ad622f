/** Makes the index of ended jobs anew, from what the log and the checkpoint still hold. */
import type { JobBundle, Seq } from '../../../core/ports/store.ts';
import type { Disk } from '../../../kit/env/env.ts';
import { isEnded } from '../../records.ts';
import type { Background } from '../background.ts';
import { Delta } from '../checkpoint/delta.ts';
import type { Paths } from '../layout.ts';
import { decodeChanges } from '../log/codec.ts';
import { listSegments, readLog } from '../log/segments.ts';
import { readRecords } from '../recover.ts';
import { historyRow } from './history.ts';

/** Returns the change up to which all ended jobs are in the index now. */
export async function rebuildHistory(
  disk: Disk,
  paths: Paths,
  background: Background,
  keptSince: number,
): Promise<Seq> {
  // Read a second time: what the brain has of it cannot be asked, and this happens once in the life of an index.
  const { records } = await readRecords(disk, paths);
  const ended = [...records.jobs.values()].filter(isEnded);
  for (const { uid } of ended) records.jobs.delete(uid);
  await endedInLog(disk, paths, async (bundles) => {
    // A job of the same name may live again.
    const kept = bundles.filter(({ uid, job }) => (job.endedAt ?? 0) >= keptSince && !records.jobs.has(uid));
    await background.index(kept.map(historyRow).join(''), 0);
  });
  await background.index(ended.map(historyRow).join(''), records.seq);
  return records.seq;
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
