/**
 * The index of ended jobs: derived from the log, kept so that memory need not hold them. Every entry is there
 * as of a sequence; the watermark says up to where all of them are.
 */
import type { HistoryQuery, JobBundle, PurgeResult } from '../../core/ports.ts';

export interface HistoryOpened {
  /** Every job that ended at or before this change is in the index. */
  readonly watermark: number;
  /** Newly made: what the log still holds must be put in again. */
  readonly fresh: boolean;
}

export interface HistoryIndex {
  open(): HistoryOpened;
  /** Ended jobs as checkpoint lines (bundle-line.ts). */
  put(lines: readonly string[], watermark: number): void;
  get(uid: string): JobBundle | undefined;
  list(query: HistoryQuery): JobBundle[];
  count(): number;
  planPurge(endedBefore: number, limit: number): PurgeResult;
  purge(endedBefore: number, limit: number): void;
  usesBlobFile(file: number): boolean;
  close(): void;
}

/** The lowest and highest blob file that a job names. */
export function blobRange(bundle: JobBundle): { low: number; high: number } | undefined {
  const { payload } = bundle.ask;
  const { result } = bundle.job;
  const files: number[] = [];
  if (typeof payload !== 'string') files.push(payload.file);
  if (result !== undefined && typeof result !== 'string') files.push(result.file);
  return files.length === 0 ? undefined : { low: Math.min(...files), high: Math.max(...files) };
}

export const callerChoseId = (bundle: JobBundle): boolean => bundle.ask.hash !== undefined;

export function matches(bundle: JobBundle, query: HistoryQuery): boolean {
  const { ask, job } = bundle;
  if (ask.tenant !== query.tenant) return false;
  if (query.before !== undefined && ask.n >= query.before) return false;
  if (query.states && !query.states.includes(job.state)) return false;
  if (query.type !== undefined && ask.type !== query.type) return false;
  if (query.session !== undefined && ask.session !== query.session) return false;
  if (query.key !== undefined && ask.key !== query.key) return false;
  return query.principal === undefined || ask.principal === query.principal;
}
