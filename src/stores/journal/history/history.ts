/**
 * The history: an index of ended jobs, derived from the log, so that memory need not hold them. The watermark is the
 * change up to which every ended job is in the index.
 */
import { createHash } from 'node:crypto';
import type { LedgerKey, LedgerPlace, LedgerSum, LedgerWindow } from '../../../core/ports/ledger.ts';
import type { HistoryQuery, JobBundle, KeptJob, PurgePlan } from '../../../core/ports/store.ts';
import { namedBodies } from '../../../model/named-bodies.ts';
import { callerChoseId } from '../../ended-jobs.ts';
import { tagText } from '../../tag-text.ts';
import { type FileSpan, spanOf } from '../blobs.ts';
import { bundleLine } from '../checkpoint/line.ts';
import type { SessionIndex } from './session-index.ts';

export interface HistoryOpened {
  /** Every job that ended at or before this change is in the index. */
  readonly watermark: number;
  /** True for a newly made index, which must be filled from the log and the checkpoint. */
  readonly fresh: boolean;
  /** True for an index of layout 1 or 2: it lacks the charges of jobs that have not ended; the first put() adds them. */
  readonly lacksCharges?: boolean;
  /** Undefined in an index that an earlier version wrote last. */
  readonly log?: LogPoint | undefined;
}

/** A frame of the log that was durable when the index was last written: it tells from which log the index was made. */
export interface LogPoint {
  /** The last change of the frame. */
  readonly seq: number;
  /** The payload checksum of the frame. */
  readonly chain: number;
  /** ownerNumber() of the log's owner; undefined before the first brain's record is in the log. */
  readonly owner: number | undefined;
}

/** The owner of a log as a number of 48 bits, since the facts of an index are numbers. */
export const ownerNumber = (owner: string): number =>
  createHash('sha256').update(owner).digest().readUIntBE(0, 6);

export const logPoint = (
  end: { readonly seq: number; readonly chain: number },
  owner: string | undefined,
): LogPoint => ({
  ...end,
  owner: owner === undefined ? undefined : ownerNumber(owner),
});

/** Separates the columns from the line in a row; JSON text never contains this character. */
export const COLUMNS_END = '\u001f';

export type HistoryColumns = readonly [
  n: number,
  uid: string,
  tenant: string,
  state: string,
  type: string,
  principal: string,
  session: string | null,
  key: string | null,
  endedAt: number,
  callerAttempts: number | null,
  blobLow: number | null,
  blobHigh: number | null,
  batch: string | null,
  tags: string | null,
  root: string | null,
];

/** Stands before the columns of a job whose charges the index makes from the job. */
const WITH_CHARGES = '$';

/**
 * The text in which an ended job is sent to the index: its columns as a JSON array, COLUMNS_END, and its checkpoint
 * line, which the index stores without parsing it. `withCharges`: the index makes the charges of the job's attempts from
 * the line, which takes the work off the thread that calls this.
 */
export function historyRow(bundle: JobBundle, withCharges = false): string {
  const { ask, job, uid } = bundle;
  const range = blobRange(bundle);
  const columns: HistoryColumns = [
    ask.n,
    uid,
    ask.tenant,
    job.state,
    ask.spec.type,
    ask.spec.agent,
    ask.spec.session_id ?? null,
    ask.spec.key ?? null,
    job.endedAt ?? 0,
    callerChoseId(bundle) ? job.attempt : null,
    range?.low ?? null,
    range?.high ?? null,
    ask.spec.batch ?? null,
    tagText(ask.spec.tags) ?? null,
    ask.ancestors?.[0] ?? null,
  ];
  const mark = withCharges ? WITH_CHARGES : '';
  return mark + JSON.stringify(columns) + COLUMNS_END + bundleLine(bundle);
}

export interface HistoryRow {
  readonly columns: HistoryColumns;
  readonly line: string;
  readonly withCharges: boolean;
}

/** Splits the text made by historyRow(). */
export function readRow(row: string): HistoryRow {
  const at = row.indexOf(COLUMNS_END);
  const withCharges = row.startsWith(WITH_CHARGES);
  const columns = JSON.parse(row.slice(withCharges ? 1 : 0, at)) as HistoryColumns;
  return { columns, line: row.slice(at + 1), withCharges };
}

const DAMAGED = 'HISTORY_DAMAGED';

/** The index itself is unusable; unlike a lock or a full disk, this does not pass. */
export class HistoryDamaged extends Error {
  readonly code = DAMAGED;
}

/** By the code and not by the class, which does not cross from a thread. */
export const isHistoryDamaged = (error: unknown): boolean =>
  (error as { code?: unknown } | undefined)?.code === DAMAGED;

/** Where an index is kept in a file, every method throws HistoryDamaged once it meets damage there. */
export interface HistoryIndex {
  open(): HistoryOpened;
  /** Closes a damaged index and puts it out of the way: the next open() makes a new one. */
  setAside(): void;
  /** `log` is left as it is where undefined. `charges` are texts made by chargeRow(). */
  put(rows: readonly string[], watermark: number, log?: LogPoint, charges?: readonly string[]): void;
  get(uid: string): JobBundle | undefined;
  list(query: HistoryQuery): JobBundle[];
  /** Jobs of all tenants whose uid is at least `from` and less than `below`, the highest uid first. */
  between(from: string, below: string, limit: number): JobBundle[];
  count(): number;
  /** Jobs of all tenants whose admission number is above `n`, oldest first. */
  after(n: number, limit: number): JobBundle[];
  planPurge(endedBefore: number, limit: number): PurgePlan;
  purge(endedBefore: number, limit: number, kept?: readonly KeptJob[]): void;
  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): LedgerSum[];
  /** Charges as chargeRow() writes them. */
  charges(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): string[];
  dropCharges(settledBefore: number, limit: number): number;
  readonly sessions: SessionIndex;
  /** True where a job's blobRange() includes this file, or an archived session names it; it may then be in use. */
  usesBlobFile(file: number): boolean;
  /** The blob files that jobs and archived sessions in the index refer to. */
  blobFiles(): number[];
  close(): void;
}

/** The lowest and highest blob file that a job needs. */
export const blobRange = ({ ask, job }: JobBundle): FileSpan | undefined =>
  spanOf([...namedBodies('ask', ask), ...namedBodies('job', job)]);
