/** Finds jobs by the beginning of their ids, as the command line does with an id that was cut short. */
import type { HistoryReads, JobBundle } from '../core/ports/store.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobPage } from '../model/http/jobs.ts';
import { uidOf } from '../model/records.ts';
import type { ListRequest } from '../model/submit.ts';
import { type FoundJob, type ListingParts, liveMatches } from './listing.ts';
import { viewOf, viewOfBundle } from './view.ts';

const DEFAULT_LIMIT = 10;
/** Comes after every character that a uid may have. */
const HIGHEST = '\u007f';

/**
 * The job with exactly this id or, if there is none, jobs whose id begins with it, newest first. If more than `limit`
 * match, which of them are shown depends on the store.
 */
export async function jobsWithPrefix(
  parts: ListingParts,
  request: ListRequest & { readonly id_prefix: string },
  tenant: string,
): Promise<JobPage> {
  const { id_prefix: prefix, limit = DEFAULT_LIMIT, ...filters } = request;
  refuseFilters(filters);
  const exact = await jobWithId(parts, uidOf(tenant, prefix));
  if (exact) return { jobs: [exact.view] };
  const { state, history } = parts;
  // Memory is read before the history: a job that leaves memory meanwhile is found in one of them at least.
  const found = await liveMatches(
    parts,
    { tenant, limit },
    ({ ask }) => ask.tenant === tenant && ask.id.startsWith(prefix),
  );
  const shown = new Set(found.map(({ uid }) => uid));
  const durable = parts.durable(state.seq);
  const [ended] = await Promise.all([endedWithPrefix(history, prefix, tenant, limit + shown.size), durable]);
  for (const bundle of ended) {
    // The history may hold the former end of a redriven job that is in memory again.
    if (!shown.has(bundle.uid) && !state.jobs.has(bundle.uid))
      found.push({ ...bundle, view: viewOfBundle(bundle) });
  }
  found.sort((a, b) => b.ask.n - a.ask.n);
  return { jobs: found.slice(0, limit).map(({ view }) => view) };
}

function refuseFilters(filters: Omit<ListRequest, 'id_prefix' | 'limit'>): void {
  const [name] = Object.entries(filters).find(([, value]) => value !== undefined) ?? [];
  if (name === undefined) return;
  throw new OrchdError('INVALID_PARAMS', `"id_prefix" cannot be combined with "${name}"`, { field: name });
}

async function jobWithId(parts: ListingParts, uid: string): Promise<FoundJob | undefined> {
  const { state, history } = parts;
  const entry = state.jobs.get(uid);
  if (entry) {
    const found = { uid, ask: entry.ask, job: entry.job, view: viewOf(parts, entry, parts.now()) };
    await parts.durable(entry.seq);
    return found;
  }
  const bundle = await history.get(uid);
  return bundle && { ...bundle, view: viewOfBundle(bundle) };
}

/**
 * Reads as few jobs as possible. The uids of the default tenant lie between those of other tenants, which begin with
 * the name of the tenant: the jobs of such a tenant are passed over at once, however many they are.
 */
async function endedWithPrefix(
  history: HistoryReads,
  prefix: string,
  tenant: string,
  limit: number,
): Promise<JobBundle[]> {
  const from = uidOf(tenant, prefix);
  const found: JobBundle[] = [];
  let below = from + HIGHEST;
  for (;;) {
    const wanted = limit - found.length;
    const page = await history.between(from, below, wanted);
    const foreign = page.find(({ ask }) => ask.tenant !== tenant);
    found.push(...page.slice(0, foreign ? page.indexOf(foreign) : page.length));
    if (!foreign) return found;
    below = uidOf(foreign.ask.tenant, '');
  }
}
