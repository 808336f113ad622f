/** Finds jobs in memory and history as one sequence. */

import { type HistoryQuery, type HistoryReads, isAskedFor, type JobBundle } from '../core/ports/store.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { State } from '../core/state/state.ts';
import type { EngineView } from '../core/turn.ts';
import type { Timers } from '../kit/env/env.ts';
import { ownTurns } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobPage, JobView } from '../model/http/jobs.ts';
import type { Shape } from '../model/http/shape.ts';
import { type AskRecord, type JobRecord, type Labels, uidOf } from '../model/records.ts';
import { JOB_STATES, type JobState } from '../model/states.ts';
import type { ListRequest } from '../model/submit.ts';
import { viewOf, viewOfBundle } from './view.ts';

const DEFAULT_LIMIT = 50;

/** Jobs that are looked at in one turn of the event loop, in which no other listing looks at any. */
const JOBS_PER_TURN = 2000;
/** Showing a job takes as long as looking at so many. */
const JOBS_PER_MATCH = 5;

export interface ListingParts extends EngineView {
  readonly history: HistoryReads;
  readonly timers: Timers;
  readonly now: () => number;
  /** Resolves when this change is durable. */
  readonly durable: (seq: number) => Promise<void>;
}

/** A job from memory or from the history. */
export interface FoundJob {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  /** The job without its bodies. */
  readonly view: JobView;
}

export async function listJobs(parts: ListingParts, request: ListRequest, tenant: string): Promise<JobPage> {
  const limit = request.limit ?? DEFAULT_LIMIT;
  const before = request.cursor === undefined ? {} : { before: Number(request.cursor) };
  const found = await findJobs(parts, { ...filterOf(request, tenant), ...before, limit: limit + 1 });
  const page = found.slice(0, limit);
  const last = page.at(-1);
  const jobs = page.map(({ view }) => view);
  return found.length > limit && last ? { jobs, cursor: String(last.ask.n) } : { jobs };
}

/** The jobs in memory and in the history that match, in the order of the query; what is shown is durable. */
export async function findJobs(parts: ListingParts, query: HistoryQuery): Promise<FoundJob[]> {
  const { state, history } = parts;
  // Memory is read before the history: a job that leaves memory meanwhile is listed once, from memory.
  const found = await liveMatches(parts, query, ({ ask, job }) => isAskedFor(query, ask, job));
  // What was read from memory must be durable; what happens during the query of the history is not shown.
  const durable = parts.durable(state.seq);
  const shown = new Set(found.map(({ uid }) => uid));
  const [ended] = await Promise.all([endedMatches(state, history, query), durable]);
  for (const bundle of ended) {
    const { uid, ask, job } = bundle;
    if (!shown.has(uid)) found.push({ uid, ask, job, view: viewOfBundle(bundle) });
  }
  const sign = query.order === 'oldest first' ? 1 : -1;
  found.sort((a, b) => sign * (a.ask.n - b.ask.n));
  return found.slice(0, query.limit);
}

/** The part of a ListRequest that says which jobs match. */
export type FilterRequest = Omit<Shape<typeof ListRequest>, 'cursor' | 'limit'>;

export function filterOf(request: FilterRequest, tenant: string): Omit<HistoryQuery, 'limit'> {
  return {
    tenant,
    ...(request.state !== undefined && { states: statesOf(request.state) }),
    ...(request.type !== undefined && { type: request.type }),
    ...(request.session_id !== undefined && { session: request.session_id }),
    ...(request.key !== undefined && { key: request.key }),
    ...(request.agent !== undefined && { principal: request.agent }),
    ...(request.batch !== undefined && { batch: request.batch }),
    ...(request.root !== undefined && { root: request.root }),
    ...(request.tag !== undefined && { tags: tagsOf(request.tag) }),
  };
}

/** Tags given as `name=value`; the schema has checked their form. */
export const tagsOf = (given: string | readonly string[]): Labels =>
  Object.fromEntries(
    [given].flat().map((tag) => [tag.slice(0, tag.indexOf('=')), tag.slice(tag.indexOf('=') + 1)]),
  );

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
  let next = query;
  for (;;) {
    const page = await history.list(next);
    for (const bundle of page) if (!state.jobs.has(bundle.uid)) found.push(bundle);
    if (found.length >= query.limit || page.length < query.limit) return found.slice(0, query.limit);
    next = behind(query, (page.at(-1) as JobBundle).ask.n);
  }
}

/** The jobs in memory that a query has to look at, in its order. */
function entriesOf(state: State, query: HistoryQuery): Iterable<JobEntry> {
  const { tenant, batch, root, order, after, before } = query;
  if (root !== undefined) return entriesBelow(state, root, query);
  const jobs = state.orderOf(tenant, batch);
  return (order === 'oldest first' ? jobs?.oldestFirst(after) : jobs?.newestFirst(before)) ?? [];
}

/** The jobs in memory below a job; of those that have ended the roster knows nothing more. */
function entriesBelow(state: State, root: string, query: HistoryQuery): JobEntry[] {
  const live = state.roster.descendants(uidOf(query.tenant, root));
  const all = new Set([...live, ...state.ended, ...state.open.values()]);
  const sign = query.order === 'oldest first' ? 1 : -1;
  return [...all]
    .filter(({ ask, job }) => isAskedFor(query, ask, job))
    .sort((a, b) => sign * (a.ask.n - b.ask.n));
}

/** The query for the jobs that follow the one with this admission number. */
export const behind = (query: HistoryQuery, n: number): HistoryQuery =>
  query.order === 'oldest first' ? { ...query, after: n } : { ...query, before: n };

/**
 * The jobs in memory that match, the first `query.limit` of them. Each is shown as it is when it is looked at: a search
 * through many jobs takes several turns.
 */
export async function liveMatches(
  { state, queue, timers, now }: Pick<ListingParts, 'state' | 'queue' | 'timers' | 'now'>,
  query: HistoryQuery,
  matches: (entry: JobEntry) => boolean,
): Promise<FoundJob[]> {
  const found: FoundJob[] = [];
  let next: HistoryQuery = query;
  for (;;) {
    await ownTurns(timers).next();
    let left = JOBS_PER_TURN;
    for (const entry of entriesOf(state, next)) {
      const { uid, ask, job } = entry;
      const isMatch = matches(entry);
      if (isMatch) {
        found.push({ uid, ask, job, view: viewOf({ state, queue }, entry, now()) });
        if (found.length === query.limit) return found;
      }
      next = behind(query, ask.n);
      left -= isMatch ? JOBS_PER_MATCH : 1;
      if (left <= 0) break;
    }
    if (left > 0) return found;
  }
}
