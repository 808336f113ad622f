/**
 * Compares the recovered log with what the index of ended jobs has seen of it (docs/decisions/0022).
 *
 * E1  The index is written only after the changes it covers are durable in the log (H1 in runtime/history-feed.ts), so
 *     a power cut never leaves an index that is ahead of the log. An index that is ahead shows that the log lost
 *     acknowledged changes, and the start is refused: the numbers of the lost changes would be given out again, and the
 *     index would be believed to hold jobs that it has never seen.
 * E2  The index names the log that it was derived from: the owner, and one frame by its last change and its checksum. An
 *     index of another log is refused even where its numbers fit.
 */
import type { Disk } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Manifest } from './checkpoint/manifest.ts';
import { type HistoryOpened, ownerNumber } from './history/history.ts';
import type { Paths } from './layout.ts';
import { checksumAt, type LogEnd } from './log/segments.ts';

/** The log as recovery found it. */
export interface RecoveredLog {
  readonly manifest: Manifest;
  readonly end: LogEnd;
  /** The owner in the brain's record; undefined in a log without that record. */
  readonly owner: string | undefined;
}

/** The last change that the index proves to have been durable. */
export const seenByIndex = ({ watermark, log }: HistoryOpened): number => Math.max(watermark, log?.seq ?? 0);

/** Throws where the index has seen changes that the log no longer holds, or belongs to another log (E1, E2). */
export async function refuseOtherIndex(
  disk: Disk,
  paths: Paths,
  recovered: RecoveredLog,
  index: HistoryOpened,
): Promise<void> {
  const { end, owner } = recovered;
  const lastSeq = end.nextSeq - 1;
  const { log } = index;
  if (log?.owner !== undefined && owner !== undefined && log.owner !== ownerNumber(owner)) {
    throw otherLog('the index of ended jobs was made from the log of another data folder');
  }
  const seen = seenByIndex(index);
  if (seen > lastSeq) throw lostEnd(end, seen, 'the index of ended jobs');
  if (!log) return;
  const checksum = await knownChecksum(disk, paths, recovered, log.seq);
  if (checksum === 'unknown' || checksum === log.chain) return;
  throw otherLog(`the index of ended jobs was made from a log whose change ${log.seq} was another one`);
}

/** The error for a log that ends before a change that `witness` has seen. */
export function lostEnd(end: LogEnd, seen: number, witness: string): OrchdError {
  const lastSeq = end.nextSeq - 1;
  const position = `log/${end.segment?.name ?? ''}:${end.goodBytes}`;
  return new OrchdError(
    'STORE_CORRUPT',
    `the end of the log is missing: it ends with change ${lastSeq} (${position}), but ${witness} has seen change ` +
      `${seen}. Put the missing part back, or accept the loss and run \`orchd doctor DIR --salvage NEWDIR\``,
    { position },
  );
}

const otherLog = (why: string): OrchdError =>
  new OrchdError(
    'STORE_CORRUPT',
    `${why}. Put the right history.sqlite back, or remove it: the next start makes a new one from the log, without the ` +
      'ended jobs whose part of the log was deleted by retention',
    { position: 'history.sqlite' },
  );

async function knownChecksum(
  disk: Disk,
  paths: Paths,
  { manifest, end }: RecoveredLog,
  seq: number,
): Promise<number | undefined | 'unknown'> {
  if (seq === end.nextSeq - 1) return end.chain ?? 'unknown';
  if (seq === manifest.seq) return manifest.chain;
  return checksumAt(disk, paths.log, seq);
}
