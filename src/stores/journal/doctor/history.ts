/**
 * Compares the index of ended jobs with the log. The index is derived: where the two differ, the log is right. Jobs that
 * are only in the index ended in segments that retention has deleted.
 */

import { pathToFileURL } from 'node:url';
import type { JobBundle } from '../../../core/ports/store.ts';
import { type Disk, diskErrorCode } from '../../../kit/env/env.ts';
import { stableHash } from '../../../kit/hash.ts';
import { DEFAULT_TENANT } from '../../../model/records.ts';
import { type HistoryIndex, type HistoryOpened, isHistoryDamaged } from '../history/history.ts';
import { endedInLog } from '../history/rebuild.ts';
import { SqliteHistory } from '../history/sqlite.ts';
import type { Paths } from '../layout.ts';
import type { Report } from './report.ts';

export interface OpenHistory extends HistoryOpened {
  readonly index: HistoryIndex;
}

export const INDEX_FILE = 'history.sqlite';
const JOBS_PER_PAGE = 1000;

/** Opens the index with the URI options that keep SQLite from writing any file. */
export async function openHistory(
  disk: Disk,
  paths: Paths,
  report: Report,
  inUse: boolean,
): Promise<OpenHistory | undefined> {
  report.fine('charges', 'not compared, since there is no index to read');
  if (!(await disk.stat(paths.history))) {
    report.fine('history', 'there is no index of ended jobs; the next start makes it from the log');
    return undefined;
  }
  const walBytes = (await disk.stat(`${paths.history}-wal`))?.size ?? 0;
  const shm = await disk.stat(`${paths.history}-shm`);
  if ((walBytes > 0 || inUse) && !shm) {
    report.warn(
      'history',
      'the index was not checked: SQLite could not read it without writing; the next start of orchd repairs that',
      INDEX_FILE,
    );
    return undefined;
  }
  const options = walBytes > 0 || inUse ? 'readonly_shm=1' : 'immutable=1';
  const index = new SqliteHistory(`${pathToFileURL(paths.history)}?${options}`, 'read');
  try {
    return { index, ...index.open() };
  } catch (error) {
    reportUnreadable(error, report);
    index.close();
    return undefined;
  }
}

/** Reports a damaged index; any other error is thrown again. */
export function reportUnreadable(error: unknown, report: Report): void {
  if (diskErrorCode(error) !== 'ERR_SQLITE_ERROR' && !isHistoryDamaged(error)) throw error;
  const { message } = error as Error;
  const sentence = `the index cannot be read (${message}); orchd makes a new one from the log once it meets the damage`;
  report.bad('history', sentence, INDEX_FILE);
}

export interface HistoryScope {
  /** Entries with a later change are not compared: they were written after the log was read. */
  readonly lastSeq: number;
  readonly tenants: Iterable<string>;
  /** Called with every job in the index. */
  readonly onEntry: (bundle: JobBundle) => Promise<void>;
}

/** Compares every job in the index with the log; returns the number of jobs that only the index holds. */
export async function compareHistory(
  disk: Disk,
  paths: Paths,
  { index, watermark }: OpenHistory,
  scope: HistoryScope,
  report: Report,
): Promise<number> {
  const ended = new Map<string, JobBundle>();
  await endedInLog(disk, paths, async (bundles) => {
    for (const bundle of bundles) ended.set(bundle.uid, bundle);
  });
  let compared = 0;
  let onlyInIndex = 0;
  try {
    for await (const bundle of entriesOf(index, [...scope.tenants, ...tenantsOf(ended)])) {
      const logged = ended.get(bundle.uid);
      if (!logged) onlyInIndex++;
      else if (isComparable(bundle, logged, scope.lastSeq, watermark)) {
        checkEntry(bundle, logged, report);
        compared++;
      }
      await scope.onEntry(bundle);
    }
    report.fine('history', `${index.count()} ended jobs, ${compared} of them compared with the log`);
  } catch (error) {
    reportUnreadable(error, report);
  }
  return onlyInIndex;
}

/** False where one of the two was written later than the other, as a brain that runs may do at any time. */
function isComparable(entry: JobBundle, logged: JobBundle, lastSeq: number, watermark: number): boolean {
  if (entry.seq > lastSeq) return false;
  // An end above the watermark may not have been written to the index yet.
  const isNotIndexedYet = entry.seq < logged.seq && logged.seq > watermark;
  return !isNotIndexedYet;
}

/** Reports an entry of the index that differs from the log. */
function checkEntry(entry: JobBundle, logged: JobBundle, report: Report): void {
  const { uid } = entry;
  if (entry.seq !== logged.seq) {
    report.bad(
      'history',
      `the index has "${uid}" as of change ${entry.seq}, the log as of ${logged.seq}`,
      INDEX_FILE,
    );
  } else if (hashOf(entry) !== hashOf(logged)) {
    report.bad('history', `the index and the log differ on "${uid}"`, INDEX_FILE);
  }
}

const hashOf = ({ ask, job, attempts }: JobBundle): string => stableHash([ask, job, attempts]);

const tenantsOf = (ended: ReadonlyMap<string, JobBundle>): Set<string> =>
  new Set([...ended.values()].map(({ ask }) => ask.tenant));

async function* entriesOf(index: HistoryIndex, tenants: readonly string[]): AsyncGenerator<JobBundle> {
  for (const tenant of new Set([DEFAULT_TENANT, ...tenants])) {
    for (let before = Number.MAX_SAFE_INTEGER; ; ) {
      const page = index.list({ tenant, before, limit: JOBS_PER_PAGE });
      yield* page;
      const last = page.at(-1);
      if (!last || page.length < JOBS_PER_PAGE) break;
      before = last.ask.n;
    }
  }
}
