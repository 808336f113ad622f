/**
 * Compares the index of ended jobs with the log. The index is derived: where the two differ the log is right, and
 * what only the index has is what the log's retention let go of.
 */

import { pathToFileURL } from 'node:url';
import type { JobBundle } from '../../../core/ports/store.ts';
import { type Disk, diskErrorCode } from '../../../kit/env/env.ts';
import { stableHash } from '../../../kit/hash.ts';
import { DEFAULT_TENANT } from '../../../model/records.ts';
import type { HistoryIndex } from '../history/history.ts';
import { endedInLog } from '../history/rebuild.ts';
import { SqliteHistory } from '../history/sqlite.ts';
import type { Paths } from '../layout.ts';
import type { Report } from './report.ts';

export interface OpenHistory {
  readonly index: HistoryIndex;
  readonly watermark: number;
}

const FILE = 'history.sqlite';
const PAGE = 1000;

/** Opens the index without writing a byte, which SQLite does by itself when it is not told otherwise. */
export async function openHistory(
  disk: Disk,
  paths: Paths,
  report: Report,
  inUse: boolean,
): Promise<OpenHistory | undefined> {
  if (!(await disk.stat(paths.history))) {
    report.fine('history', 'there is none; it is made from the log at the next start');
    return undefined;
  }
  const ownLog = (await disk.stat(`${paths.history}-wal`))?.size ?? 0;
  const memory = await disk.stat(`${paths.history}-shm`);
  if ((ownLog > 0 || inUse) && !memory) {
    report.warn(
      'history',
      'it cannot be read without writing to it; orchd settles that at its next start',
      FILE,
    );
    return undefined;
  }
  const how = ownLog > 0 || inUse ? 'readonly_shm=1' : 'immutable=1';
  const index = new SqliteHistory(`${pathToFileURL(paths.history)}?${how}`, 'read');
  try {
    return { index, watermark: index.open().watermark };
  } catch (error) {
    unreadable(error, report);
    index.close();
    return undefined;
  }
}

function unreadable(error: unknown, report: Report): void {
  if (diskErrorCode(error) !== 'ERR_SQLITE_ERROR' && !(error instanceof SyntaxError)) throw error;
  const { message } = error as Error;
  report.bad('history', `it cannot be read (${message}); orchd makes a new one from the log`, FILE);
}

/** The index learns of a change after the log does: one that knows more shows that the log has lost its end. */
export function checkWatermark({ watermark }: OpenHistory, lastSeq: number, report: Report): void {
  if (watermark <= lastSeq) return;
  const sentence = `it has seen change ${watermark}, yet the log ends with ${lastSeq}: the end of the log is missing`;
  report.bad('history', sentence, FILE);
}

export interface HistoryScope {
  /** Entries as of later changes are not judged: the log was read before them. */
  readonly lastSeq: number;
  readonly tenants: Iterable<string>;
  /** Called with every entry. */
  readonly onEntry: (bundle: JobBundle) => Promise<void>;
}

/** Returns how many ended jobs only the index has. */
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
  let both = 0;
  let onlyHere = 0;
  try {
    for await (const bundle of entriesOf(index, [...scope.tenants, ...tenantsOf(ended)])) {
      const logged = ended.get(bundle.uid);
      if (!logged) onlyHere++;
      else if (bundle.seq > scope.lastSeq || agree(bundle, logged, watermark, report)) both++;
      await scope.onEntry(bundle);
    }
    report.fine('history', `${index.count()} ended jobs, ${both} of them compared with the log`);
  } catch (error) {
    unreadable(error, report);
  }
  return onlyHere;
}

function agree(bundle: JobBundle, logged: JobBundle, watermark: number, report: Report): boolean {
  const { uid } = bundle;
  if (bundle.seq !== logged.seq) {
    // It may lag behind, by what it has not been given yet.
    if (bundle.seq < logged.seq && logged.seq > watermark) return true;
    report.bad('history', `it has "${uid}" as of change ${bundle.seq}, the log as of ${logged.seq}`, FILE);
    return false;
  }
  if (hashOf(bundle) === hashOf(logged)) return true;
  report.bad('history', `it has "${uid}" otherwise than the log`, FILE);
  return false;
}

const hashOf = ({ ask, job, attempts }: JobBundle): string => stableHash([ask, job, attempts]);

const tenantsOf = (ended: ReadonlyMap<string, JobBundle>): Set<string> =>
  new Set([...ended.values()].map(({ ask }) => ask.tenant));

async function* entriesOf(index: HistoryIndex, tenants: readonly string[]): AsyncGenerator<JobBundle> {
  for (const tenant of new Set([DEFAULT_TENANT, ...tenants])) {
    for (let before = Number.MAX_SAFE_INTEGER; ; ) {
      const page = index.list({ tenant, before, limit: PAGE });
      yield* page;
      const last = page.at(-1);
      if (!last || page.length < PAGE) break;
      before = last.ask.n;
    }
  }
}
