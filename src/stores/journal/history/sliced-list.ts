/**
 * Lists ended jobs in slices: SQLite reads in the thread of the event loop, and a query that few jobs match would look at
 * all of them in one turn.
 */
import type { HistoryQuery, JobBundle } from '../../../core/ports/store.ts';
import type { Timers } from '../../../kit/env/env.ts';
import { ownTurns } from '../../../kit/slices.ts';

/** Admission numbers that are searched in one turn; not each of them is that of an ended job. */
const NUMBERS_PER_TURN = 20_000;

/** The fields by which the index finds jobs without a search. */
const INDEXED = ['session', 'key', 'batch', 'root'] as const;

export interface RangedHistory {
  list(query: HistoryQuery): JobBundle[];
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
  if (INDEXED.some((field) => query[field] !== undefined)) return history.list(query);
  const { low, high } = history.range() ?? { low: 0, high: -1 };
  const found: JobBundle[] = [];
  for (const slice of slicesOf(query, low, high)) {
    found.push(...history.list({ ...query, ...slice, limit: query.limit - found.length }));
    if (found.length === query.limit) break;
    await turns.next();
  }
  return found;
}

type Slice = Required<Pick<HistoryQuery, 'before' | 'after'>>;

/** The admission numbers from `low` to `high` that a query asks for, in its order, in slices (both ends are excluded). */
function* slicesOf(query: HistoryQuery, low: number, high: number): Generator<Slice> {
  const from = Math.max(query.after ?? low - 1, low - 1);
  const to = Math.min(query.before ?? high + 1, high + 1);
  if (query.order === 'oldest first') {
    for (let after = from; after + 1 < to; after += NUMBERS_PER_TURN)
      yield { after, before: Math.min(to, after + NUMBERS_PER_TURN + 1) };
  } else {
    for (let before = to; before - 1 > from; before -= NUMBERS_PER_TURN)
      yield { after: Math.max(from, before - NUMBERS_PER_TURN - 1), before };
  }
}
