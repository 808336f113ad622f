/** The values of `reason`, for codes that cover several cases. Never renamed or reused, like the codes. */
export const REASONS = {
  model_retired: 'The model is retired.',
  max_waiting: 'As many jobs wait for others, for an instant or for an answer as may.',
  context_length: 'The job needs a longer context than the model has.',
  token_budget: 'The tokens of a limit or of the session are used up.',
  cost_budget: 'The job may cost more than is left of a hard budget, now and later.',
  no_price: 'A hard budget applies, and the model has no price on a backend that costs money.',
  unbounded_cost: 'A hard budget applies, and nothing bounds what the job costs, such as max_tokens.',
  parent_ended: 'The job named by parent_id has ended, or is being cancelled.',
  unknown_dependency: 'A job named by after does not exist, or has been deleted.',
  dependency: 'A job that the job waits for has not ended as it demands.',
  no_backend: 'Nothing here could run the job; with wait_for_backend it waits for a backend that is to come.',
  recent_failure: 'A job with the same key failed for good a short while ago.',
  pool_differs: 'The consumers of the pool declare other types, models, labels or costs.',
  name_taken: 'A consumer of this name is registered in the pool, and has not fallen silent.',
  too_many_consumers: 'The maximum number of consumers is registered.',
  too_many_worker_pools: 'The maximum number of worker pools is there.',
  too_many_leases: 'The maximum number of leases is in use.',
  session_deleted: 'The session was deleted, and with it the text of its jobs.',
  too_many_sessions: 'The maximum number of sessions is in use.',
  tenant_share: 'The tenant has as much of a common resource as it may have.',
  global_scope: 'The call concerns all tenants: it needs a token of the tenant "default".',
  model_not_allowed: 'The token may use some models only, and this is none of them.',
  token_revoked: 'The token was revoked while the request was in progress.',
  pool_host: 'The host is not one at which a pool may register; pools.allowed_hosts lists more.',
  dropped: 'The job was dropped to make room for newer work.',
  begun_again: 'The answer was restarted after part of it had been sent.',
  fetching: 'The model is being fetched; try again later.',
  download: 'The model could not be fetched.',
  unreachable: 'The other side cannot be reached; it has not received the request.',
  busy: 'Too many requests are under way to the other side; this one was not sent.',
  connection_lost: 'The connection broke while the request was under way.',
  timeout: 'The other side did not answer in time.',
  idle: 'The other side began to answer and then sent nothing for too long.',
  redirect: 'The other side answered with a redirect, which is not followed.',
  too_large: 'The answer is larger than allowed.',
  malformed: 'The answer is malformed.',
  occupied: 'The backend runs as many jobs as it can.',
  reserved: 'The backend is free, and kept for a caller that was refused before.',
  queue_depth: 'More jobs wait than may: the gate of the queue is closed until fewer do.',
  agent_waiting: 'More jobs of the agent wait than may: its gate is closed until fewer do.',
  rate_limited: 'The provider wants fewer requests for a while.',
  overloaded: 'The provider has too much to do.',
  quota: 'The account at the provider has used up what it may use.',
  auth_required: 'The provider does not accept the key, or its page asks for a login.',
  failing: 'Jobs on the backend have failed one after another: it is paused, then one job tries it.',
  aborted: 'The request was aborted by its caller.',
  upstream_400: 'The upstream answered 400: it does not accept the request.',
  upstream_404: 'The upstream answered 404: it does not have the model, or no such call.',
  upstream_413: 'The upstream answered 413: the request is too large for it.',
  upstream_422: 'The upstream answered 422: it does not accept the request.',
} as const satisfies Record<string, string>;

export type Reason = keyof typeof REASONS;

/** Why an executor does not take a job that it could run at another time. */
export const BUSY_REASONS = [
  'occupied',
  'reserved',
  'rate_limited',
  'overloaded',
  'unreachable',
  'quota',
  'auth_required',
] as const satisfies readonly Reason[];
export type BusyReason = (typeof BUSY_REASONS)[number];

/** Why a backend is offered no job for a while. */
export type BlockReason = BusyReason | 'failing';

/** The reasons for which a provider turns a request away before it has done any work for it. */
export const TURNED_AWAY_REASONS = [
  'rate_limited',
  'overloaded',
  'unreachable',
  'quota',
  'auth_required',
] as const satisfies readonly BusyReason[];
export type TurnedAwayReason = (typeof TURNED_AWAY_REASONS)[number];

/** Answers of an upstream that are about the request itself: they reach callers of `/v1` with the same status. */
const UPSTREAM_STATUSES: ReadonlyMap<string, number> = new Map(
  ([400, 404, 413, 422] as const).map((status) => [`upstream_${status}` satisfies Reason, status]),
);

/** The reason for an answer of an upstream with this status; undefined for those that are not about the request. */
export function upstreamReason(status: number): Reason | undefined {
  const reason = `upstream_${status}`;
  return UPSTREAM_STATUSES.has(reason) ? (reason as Reason) : undefined;
}

/** The status that an upstream gave; undefined for all other reasons. */
export const upstreamStatus = (reason: string | undefined): number | undefined =>
  UPSTREAM_STATUSES.get(reason ?? '');
