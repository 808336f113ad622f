/**
 * The index of ended jobs: derived from the log, kept so that memory need not hold them. Every entry is there
 * as of a sequence; the watermark says up to where all of them are.
 */
import type { HistoryQuery, JobBundle, PurgeResult } from '../../../core/ports/store.ts';
import { callerChoseId } from '../../ended-jobs.ts';
import { fileOf } from '../blobs.ts';
import { bundleLine } from '../checkpoint/line.ts';

export interface HistoryOpened {
  /** Every job that ended at or before this change is in the index. */
  readonly watermark: number;
  /** Newly made: what the log still holds must be put in again. */
  readonly fresh: boolean;
}

/**
 * An ended job on its way into the index: its columns as a JSON array, a separator that JSON never contains, and
 * its checkpoint line. The writer then need not take the line apart.
 */
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
];

export function historyRow(bundle: JobBundle): string {
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
  ];
  return JSON.stringify(columns) + COLUMNS_END + bundleLine(bundle);
}

/** The columns and the line of a row. */
export function readRow(row: string): { readonly columns: HistoryColumns; readonly line: string } {
  const at = row.indexOf(COLUMNS_END);
  return { columns: JSON.parse(row.slice(0, at)) as HistoryColumns, line: row.slice(at + 1) };
}

export interface HistoryIndex {
  open(): HistoryOpened;
  put(rows: readonly string[], watermark: number): void;
  get(uid: string): JobBundle | undefined;
  list(query: HistoryQuery): JobBundle[];
  count(): number;
  /** Of all tenants, those admitted after this place, oldest first. */
  after(n: number, limit: number): JobBundle[];
  planPurge(endedBefore: number, limit: number): PurgeResult;
  purge(endedBefore: number, limit: number): void;
  usesBlobFile(file: number): boolean;
  close(): void;
}

/** The lowest and highest blob file that a job names. */
export function blobRange(bundle: JobBundle): { low: number; high: number } | undefined {
  const files = [fileOf(bundle.ask.payload), fileOf(bundle.job.result)].filter((file) => file !== undefined);
  return files.length === 0 ? undefined : { low: Math.min(...files), high: Math.max(...files) };
}
