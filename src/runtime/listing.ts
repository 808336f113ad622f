/** Lists jobs, newest first, from memory and history as one sequence. */

import { type HistoryQuery, type HistoryReads, isAskedFor, type JobBundle } from '../core/ports/store.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { State } from '../core/state/state.ts';
import type { Timers } from '../kit/env/env.ts';
import { ownTurns } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobPage, JobView } from '../model/http/jobs.ts';
import { JOB_STATES, type JobState } from '../model/states.ts';
import type { ListRequest } from '../model/submit.ts';
import { viewOf, viewOfBundle } from './view.ts';

const DEFAULT_LIMIT = 50;

/** Jobs that are looked at in one turn of the event loop, in which no other listing looks at any. */
const JOBS_PER_TURN = 2000;
/** Showing a job takes as long as looking at so many. */
const JOBS_PER_MATCH = 5;

export interface ListingParts {
  readonly state: State;
  readonly history: HistoryReads;
  readonly timers: Timers;
  readonly now: () => number;
  /** Resolves when this change is durable. */
  readonly durable: (seq: number) => Promise<void>;
}

export async function listJobs(parts: ListingParts, request: ListRequest, tenant: string): Promise<JobPage> {
  const { state, history } = parts;
  const limit = request.limit ?? DEFAULT_LIMIT;
  const query = queryOf(request, tenant, limit + 1);
  // Memory is read before the history: a job that leaves memory meanwhile is listed once, from memory.
  const found = await liveMatches(parts, query, ({ ask, job }) => isAskedFor(query, ask, job));
  // What was read from memory must be durable; what happens during the query of the history is not shown.
  const durable = parts.durable(state.seq);
  const shown = new Set(found.map(({ uid }) => uid));
  const [ended] = await Promise.all([endedMatches(state, history, query), durable]);
  for (const bundle of ended) {
    if (!shown.has(bundle.uid)) found.push({ n: bundle.ask.n, uid: bundle.uid, view: viewOfBundle(bundle) });
  }
  found.sort((a, b) => b.n - a.n);
  const page = found.slice(0, limit);
  const last = page.at(-1);
  const jobs = page.map(({ view }) => view);
  return found.length > limit && last ? { jobs, cursor: String(last.n) } : { jobs };
}

function queryOf(request: ListRequest, tenant: string, limit: number): HistoryQuery {
  return {
    tenant,
    limit,
    ...(request.state !== undefined && { states: statesOf(request.state) }),
    ...(request.type !== undefined && { type: request.type }),
    ...(request.session_id !== undefined && { session: request.session_id }),
    ...(request.key !== undefined && { key: request.key }),
    ...(request.agent !== undefined && { principal: request.agent }),
    ...(request.cursor !== undefined && { before: Number(request.cursor) }),
  };
}

function statesOf(text: string): JobState[] {
  const states = text.split(',').map((state) => state.trim());
  const wrong = states.find((state) => !(JOB_STATES as string[]).includes(state));
  if (wrong !== undefined) {
    throw new OrchdError(
      'INVALID_PARAMS',
      `"${wrong}" is not a job state; use one of ${JOB_STATES.join(', ')}`,
      {
        field: 'state',
      },
    );
  }
  return states as JobState[];
}

/** The history may hold the former end of a redriven job that is in memory again: it is skipped and does not count. */
async function endedMatches(state: State, history: HistoryReads, query: HistoryQuery): Promise<JobBundle[]> {
  const found: JobBundle[] = [];
  let { before } = query;
  for (;;) {
    const page = await history.list(before === undefined ? query : { ...query, before });
    for (const bundle of page) if (!state.jobs.has(bundle.uid)) found.push(bundle);
    if (found.length >= query.limit || page.length < query.limit) return found.slice(0, query.limit);
    before = (page.at(-1) as JobBundle).ask.n;
  }
}

export interface FoundJob {
  readonly n: number;
  readonly uid: string;
  readonly view: JobView;
}

/**
 * The newest jobs in memory that match, at most `limit`. Each is shown as it is when it is looked at: a search through
 * many jobs takes several turns.
 */
export async function liveMatches(
  { state, timers, now }: Pick<ListingParts, 'state' | 'timers' | 'now'>,
  { before: first, limit }: Pick<HistoryQuery, 'before' | 'limit'>,
  matches: (entry: JobEntry) => boolean,
): Promise<FoundJob[]> {
  const found: FoundJob[] = [];
  let before = first;
  for (;;) {
    await ownTurns(timers).next();
    let left = JOBS_PER_TURN;
    for (const entry of state.newestFirst(before)) {
      const isMatch = matches(entry);
      if (isMatch) {
        found.push({ n: entry.ask.n, uid: entry.uid, view: viewOf(state, entry, now()) });
        if (found.length === limit) return found;
      }
      before = entry.ask.n;
      left -= isMatch ? JOBS_PER_MATCH : 1;
      if (left <= 0) break;
    }
    if (left > 0) return found;
  }
}
