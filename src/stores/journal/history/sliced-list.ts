/**
 * Lists ended jobs in slices: SQLite reads in the thread of the event loop, and a query that few jobs match would look at
 * all of them in one turn.
 */
import type { HistoryQuery, JobBundle } from '../../../core/ports/store.ts';
import type { Timers } from '../../../kit/env/env.ts';
import { ownTurns } from '../../../kit/slices.ts';

/** Admission numbers that are searched in one turn; not each of them is that of an ended job. */
const NUMBERS_PER_TURN = 20_000;

export interface RangedHistory {
  /** Jobs with an admission number of at least `from`. */
  list(query: HistoryQuery, from?: number): JobBundle[];
  /** The lowest and the highest admission number; undefined for an empty history. */
  range(): { readonly low: number; readonly high: number } | undefined;
}

export async function listInSlices(
  history: RangedHistory,
  query: HistoryQuery,
  timers: Timers,
): Promise<JobBundle[]> {
  const turns = ownTurns(timers);
  await turns.next();
  // There is an index for the jobs of a session and one for those of a key.
  if (query.session !== undefined || query.key !== undefined) return history.list(query);
  const { low, high } = history.range() ?? { low: 0, high: -1 };
  const found: JobBundle[] = [];
  let before = Math.min(query.before ?? Number.POSITIVE_INFINITY, high + 1);
  while (before > low) {
    const from = before - NUMBERS_PER_TURN;
    found.push(...history.list({ ...query, before, limit: query.limit - found.length }, from));
    if (found.length === query.limit) break;
    before = from;
    await turns.next();
  }
  return found;
}
