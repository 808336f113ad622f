/**
 * Charges jobs to the limits: an estimate is reserved at admission and replaced by the real use at the end. The operator
 * (the default tenant) limits any scope; another tenant limits only its own scopes, and both limits hold.
 */

import { OrchdError } from '../../model/errors.ts';
import type { LimitSpec, LimitsRecord, SpentRecord } from '../../model/limit-records.ts';
import { type AskRecord, DEFAULT_TENANT } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { modeLimits } from '../governance/governance.ts';
import {
  isKeyScope,
  isModeScope,
  isScopeOf,
  isSubmitLimit,
  LimitTable,
  ownScope,
  scopes,
  writtenScope,
} from '../limits/limit.ts';
import type { Reservation } from '../limits/limiter.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { ancestorsOf } from './route.ts';
import { storeSpent } from './spent.ts';
import type { Submission } from './submission.ts';
import { openTrees, treeScopes } from './tree-budget.ts';

/** The id of the record with the operator's limits. */
const LIMITS_ID = 'limits';
/** The id of the record with a tenant's own limits is this prefix and the tenant. */
const OWN_LIMITS = `${LIMITS_ID}:`;

/** The id of the record with the budgets of virtual keys. */
const KEYS_ID = 'keys';

/** The limits of the mode of governance: they follow from its record, and have none of their own. */
const MODE_ID = 'mode';

/** The retry time of a refusal while no start rate has been measured. */
const DEFAULT_RETRY_MS = 1000;

type LimitsView = Pick<Turn, 'state' | 'settings'>;

const NO_LIMITS: readonly LimitSpec[] = [];

/**
 * The limits that a tenant has set. Those of the default tenant are the operator's: set at run time, else those of the
 * configuration.
 */
export function limitsOf({ state, settings }: LimitsView, tenant: string): readonly LimitSpec[] {
  const { limits } = state.tables;
  if (tenant === DEFAULT_TENANT) return limits.get(LIMITS_ID)?.limits ?? settings.limits;
  return limits.get(OWN_LIMITS + tenant)?.limits ?? NO_LIMITS;
}

/** The budgets that the token file gives to tokens. */
export const keyLimits = ({ state }: Pick<Turn, 'state'>): readonly LimitSpec[] =>
  state.tables.limits.get(KEYS_ID)?.limits ?? NO_LIMITS;

/** Replaces the budgets of virtual keys. Nothing is written if they are the same. */
export function setKeyLimits(turn: Turn, limits: readonly LimitSpec[]): void {
  if (JSON.stringify(limits) !== JSON.stringify(keyLimits(turn))) replace(turn, KEYS_ID, limits, 'tokens');
}

/** Replaces the limits that the tenant has set; throws, and changes nothing, if one is invalid or not the tenant's. */
export function setLimits(
  turn: Turn,
  tenant: string,
  limits: readonly LimitSpec[],
  by: string,
): LimitsRecord {
  const id = tenant === DEFAULT_TENANT ? LIMITS_ID : OWN_LIMITS + tenant;
  for (const { scope } of limits) checkScope(scope, tenant);
  return replace(turn, id, limits, by);
}

function replace(turn: Turn, id: string, limits: readonly LimitSpec[], by: string): LimitsRecord {
  const others = [...limitLists(turn)].filter((list) => list.id !== id);
  checkAll([...others, { id, limits }]);
  // What was used until now must be stored before it is counted again from there.
  storeSpent(turn);
  apply(turn, [...others, { id, limits }]);
  turn.state.unreserved = undefined;
  const record: LimitsRecord = { v: 1, by, at: turn.now, limits };
  turn.put('limits', id, record, { is: 'set', by });
  return record;
}

/** Throws INVALID_PARAMS unless the tenant may set a limit of the scope. */
export function checkScope(scope: string, tenant: string): void {
  const isAllowed = tenant === DEFAULT_TENANT ? writtenScope(scope) === scope : isScopeOf(scope, tenant);
  if (isAllowed && !isKeyScope(scope) && !isModeScope(scope)) return;
  const own = `tenant:${tenant}, agent:${tenant}/NAME, token:${tenant}/NAME or session:${tenant}/ID`;
  const what =
    tenant === DEFAULT_TENANT ? 'is not the name of a scope' : `is not a scope of this tenant: ${own}`;
  throw new OrchdError('INVALID_PARAMS', `"${scope}" ${what}`, { field: 'scope' });
}

/** At the start of a brain: buckets and budgets go on where they were, and the estimates of live jobs are reserved. */
export function openLimits(turn: Turn): void {
  for (const { scope } of turn.settings.limits) checkScope(scope, DEFAULT_TENANT);
  const lists = [...limitLists(turn)];
  openTrees(turn);
  const isLimited = lists.some(({ limits }) => limits.length > 0) || !turn.queue.gates.isEmpty;
  if (!isLimited && turn.state.limiter.ownCount === 0) return;
  apply(turn, lists);
  reserveLive(turn, Number.POSITIVE_INFINITY);
}

/** Limits as one record holds them, or the configuration. */
interface LimitList {
  readonly id: string;
  readonly limits: readonly LimitSpec[];
}

/** The operator's limits, then those of each tenant that has set some, those of virtual keys, and those of the mode. */
function* limitLists(turn: Turn): Generator<LimitList> {
  yield { id: LIMITS_ID, limits: limitsOf(turn, DEFAULT_TENANT) };
  for (const [id, { limits }] of turn.state.tables.limits.entries())
    if (id.startsWith(OWN_LIMITS) || id === KEYS_ID) yield { id, limits };
  yield { id: MODE_ID, limits: modeLimits(turn.state.governance) };
}

/** Puts the limits of the present mode into force, beside all others. */
export function limitMode(turn: Turn): void {
  storeSpent(turn);
  apply(turn, [...limitLists(turn)]);
}

/** The limits of a list by the names under which the limiter counts them. */
const countedLimits = ({ id, limits }: LimitList): readonly LimitSpec[] =>
  id.startsWith(OWN_LIMITS) ? limits.map((limit) => ({ ...limit, scope: ownScope(limit.scope) })) : limits;

function apply(turn: Turn, lists: readonly LimitList[]): void {
  const { limiter, tables, open } = turn.state;
  const limits = lists.flatMap(countedLimits);
  const stored = (scope: string): SpentRecord | undefined => tables.spent.get(scope);
  // The tokens of a session are counted in its record alone: see checkBudget.
  const isSession = ({ scope }: LimitSpec): boolean => writtenScope(scope).startsWith('session:');
  limiter.configure(
    limits.map((limit) => (isSession(limit) ? { ...limit, tokenBudget: undefined } : limit)),
    turn.now,
    stored,
  );
  turn.queue.limitStarts(limits, stored, open.values(), turn.now);
}

/**
 * Reserves the estimates of live jobs without a reservation. Without any limit of the operator or of the tenant nothing is
 * reserved, so that jobs admitted before the first limit are charged now. Looks at `atMost` jobs, and goes on with the
 * next ones when it is called again. Returns whether some are left.
 */
export function reserveLive(turn: Turn, atMost: number): boolean {
  const { state } = turn;
  const isLimited = [...limitLists(turn)].some(({ limits }) => limitsSubmits(limits));
  if (!isLimited && state.limiter.ownCount === 0) return false;
  state.unreserved ??= state.jobs.values();
  for (let looked = 0; looked < atMost; looked++) {
    const { value: entry, done } = state.unreserved.next();
    if (done) {
      state.unreserved = undefined;
      return false;
    }
    if (entry.reservation || isTerminal(entry.job.state)) continue;
    const { ask } = entry;
    const cost = { requests: 1, tokens: ask.tokens ?? 0 };
    entry.reservation = state.limiter.restore(scopesOf(turn, ask), cost, ask.createdAt, turn.now);
  }
  return true;
}

/** The table of each list of limits: lists are replaced as a whole, and seldom. */
const tables = new WeakMap<readonly LimitSpec[], LimitTable>();

/** The smallest token budget that the limits of the operator and of its tenant give a session. */
export function sessionBudget(turn: Turn, tenant: string, session: string): number | undefined {
  const scope = scopes.session(tenant, session);
  const budgets = [DEFAULT_TENANT, tenant].map((by) => tableOf(limitsOf(turn, by)).find(scope)?.tokenBudget);
  const smallest = Math.min(...budgets.map((budget) => budget ?? Number.POSITIVE_INFINITY));
  return smallest === Number.POSITIVE_INFINITY ? undefined : smallest;
}

function tableOf(limits: readonly LimitSpec[]): LimitTable {
  const table = tables.get(limits) ?? new LimitTable(limits);
  tables.set(limits, table);
  return table;
}

type LimitedAsk = Pick<AskRecord, 'tenant' | 'submittedBy' | 'spec' | 'ancestors'>;

function scopesOf(turn: Turn, ask: LimitedAsk): string[] {
  const { tenant, submittedBy, spec } = ask;
  const { agent, session_id, model } = spec;
  const ofTenant = [scopes.tenant(tenant), scopes.agent(tenant, agent), scopes.token(tenant, submittedBy)];
  if (session_id !== undefined) ofTenant.push(scopes.session(tenant, session_id));
  const named = [scopes.global, ...ofTenant, ...treeScopes(turn, ask)];
  if (tenant !== DEFAULT_TENANT) named.push(...ofTenant.map(ownScope));
  // The id of the model, if an alias was used.
  if (model !== undefined) named.push(scopes.model(turn.state.catalog.find(model)?.id ?? model));
  return named;
}

/**
 * Reserves the estimate of a submission, or throws with the exceeded limit and when to retry. If `check` throws, the
 * reservation is released again.
 */
export function reserve(turn: Turn, submission: Submission, check: () => void): Reservation | undefined {
  const ancestors = ancestorsOf(turn, submission);
  const isLimited =
    hasLimits(turn, submission.tenant) || treeScopes(turn, { ...submission, ancestors }).length > 0;
  const reservation = isLimited ? take(turn, submission, ancestors) : undefined;
  try {
    check();
    if (reservation) turn.state.limiter.admitted(reservation);
    return reservation;
  } catch (error) {
    if (reservation) turn.state.limiter.undo(reservation, turn.now);
    throw error;
  }
}

/** Whether submits of the tenant are limited: those of starts alone need no reservation of each waiting job. */
const hasLimits = (turn: Turn, tenant: string): boolean =>
  limitsSubmits(limitsOf(turn, DEFAULT_TENANT)) || limitsSubmits(limitsOf(turn, tenant));

/** Of each list of limits: lists are replaced as a whole, and seldom. */
const areOfSubmits = new WeakMap<readonly LimitSpec[], boolean>();

function limitsSubmits(limits: readonly LimitSpec[]): boolean {
  if (limits.length === 0) return false;
  let known = areOfSubmits.get(limits);
  if (known === undefined) {
    known = limits.some(isSubmitLimit);
    areOfSubmits.set(limits, known);
  }
  return known;
}

const checkAll = (lists: readonly LimitList[]): void => void new LimitTable(lists.flatMap(countedLimits));

function take(turn: Turn, submission: Submission, ancestors: AskRecord['ancestors']): Reservation {
  const cost = { requests: 1, tokens: submission.tokens ?? 0 };
  const reserved = turn.state.limiter.reserve(scopesOf(turn, { ...submission, ancestors }), cost, turn.now);
  if (reserved.ok) return reserved.reservation;
  const { what, retryAfterMs } = reserved;
  const scope = writtenScope(reserved.scope);
  if (what === 'budget') {
    throw new OrchdError('ADMISSION_REJECT', `the tokens of "${scope}" are used up`, {
      reason: 'token_budget',
      ...(retryAfterMs !== undefined && { retryAfterMs: Math.ceil(retryAfterMs) }),
    });
  }
  throw new OrchdError('RATE_LIMITED', `"${scope}" has reached its limit of ${what}`, {
    policyLabel: `${scope} ${what}`,
    // The end of a running job cannot be foreseen; estimate it by the measured rate of starts.
    retryAfterMs: Math.ceil(retryAfterMs ?? turn.queue.startRate.retryAfterMs(turn.now) ?? DEFAULT_RETRY_MS),
  });
}

/**
 * Settles the reservation of an ended job: nothing was used if it never had an attempt, the estimate counts if no use was
 * reported. spent.ts stores the new sums in the same commit as the end.
 */
export function settle(turn: Turn, entry: JobEntry): void {
  const { limiter } = turn.state;
  const { reservation } = entry;
  if (!reservation) return;
  entry.reservation = undefined;
  if (entry.job.attempt === 0) return limiter.release(reservation, turn.now);
  limiter.settle(reservation, entry.usedTokens ?? entry.ask.tokens ?? 0, turn.now);
}

/** Drops the account of a deleted session, and the tokens that a former version counted for it. */
export function forgetSpent(turn: Turn, tenant: string, session: string): void {
  const scope = scopes.session(tenant, session);
  turn.state.limiter.forget(scope);
  turn.state.limiter.forget(ownScope(scope));
  if (turn.state.tables.spent.get(scope)) turn.put('spent', scope, null, 'session-over');
}
