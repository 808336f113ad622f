/** Charges jobs to the limits: an estimate is reserved at admission and replaced by the real use at the end. */

import { OrchdError } from '../../model/errors.ts';
import type { AskRecord, LimitSpec, LimitsRecord } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { LimitTable, scopes } from '../limits/limit.ts';
import type { Reservation } from '../limits/limiter.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

/** The id of the only limits record. */
export const LIMITS_ID = 'limits';

/** The retry time of a refusal while no start rate has been measured. */
const DEFAULT_RETRY_MS = 1000;

/** The limits in force: those set at run time, else those of the configuration. */
export const limitsOf = (turn: Turn): readonly LimitSpec[] =>
  turn.state.tables.limits.get(LIMITS_ID)?.limits ?? turn.settings.limits;

/** Replaces all limits; throws, and changes nothing, if one is invalid. */
export function setLimits(turn: Turn, limits: readonly LimitSpec[], by: string): LimitsRecord {
  apply(turn, limits);
  const record: LimitsRecord = { v: 1, by, at: turn.now, limits };
  turn.put('limits', LIMITS_ID, record, { is: 'set', by });
  return record;
}

/** At the start of a brain: restores budgets, starts rates anew, and reserves the estimates of live jobs. */
export function openLimits(turn: Turn): void {
  const limits = limitsOf(turn);
  if (limits.length > 0) apply(turn, limits);
}

function apply(turn: Turn, limits: readonly LimitSpec[]): void {
  const { limiter, tables, jobs } = turn.state;
  // The tokens of a session are counted in its record alone: see checkBudget.
  const isSession = ({ scope }: LimitSpec): boolean => scope.startsWith('session:');
  limiter.configure(
    limits.map((limit) => (isSession(limit) ? { ...limit, tokenBudget: undefined } : limit)),
    turn.now,
  );
  for (const [scope, { tokens }] of tables.spent.entries()) limiter.load(scope, tokens, turn.now);
  for (const entry of jobs.values()) {
    // Without any limit nothing is reserved: jobs admitted before the first limit are charged now.
    if (entry.reservation || isTerminal(entry.job.state)) continue;
    const cost = { requests: 0, tokens: entry.ask.tokens ?? 0 };
    entry.reservation = limiter.restore(scopesOf(turn, entry.ask), cost, turn.now);
  }
}

/** The table of each list of limits: lists are replaced as a whole, and seldom. */
const tables = new WeakMap<readonly LimitSpec[], LimitTable>();

/** The token budget that the limits give a session. */
export function sessionBudget(turn: Turn, tenant: string, session: string): number | undefined {
  const limits = limitsOf(turn);
  const table = tables.get(limits) ?? new LimitTable(limits);
  tables.set(limits, table);
  return table.find(scopes.session(tenant, session))?.tokenBudget;
}

type LimitedAsk = Pick<AskRecord, 'tenant' | 'submittedBy' | 'spec'>;

function scopesOf(turn: Turn, { tenant, submittedBy, spec }: LimitedAsk): string[] {
  const { agent, session_id, model } = spec;
  const named = [
    scopes.global,
    scopes.tenant(tenant),
    scopes.agent(tenant, agent),
    scopes.token(submittedBy),
  ];
  if (session_id !== undefined) named.push(scopes.session(tenant, session_id));
  // The id of the model, if an alias was used.
  if (model !== undefined) named.push(scopes.model(turn.state.catalog.find(model)?.id ?? model));
  return named;
}

/**
 * Reserves the estimate of a submission, or throws with the exceeded limit and when to retry. If `check` throws, the
 * reservation is released again.
 */
export function reserve(turn: Turn, submission: Submission, check: () => void): Reservation | undefined {
  const reservation = limitsOf(turn).length === 0 ? undefined : take(turn, submission);
  try {
    check();
    return reservation;
  } catch (error) {
    if (reservation) turn.state.limiter.release(reservation, turn.now);
    throw error;
  }
}

function take(turn: Turn, submission: Submission): Reservation {
  const cost = { requests: 1, tokens: submission.tokens ?? 0 };
  const reserved = turn.state.limiter.reserve(scopesOf(turn, submission), cost, turn.now);
  if (reserved.ok) return reserved.reservation;
  const { scope, what, retryAfterMs } = reserved;
  if (what === 'budget') {
    throw new OrchdError('ADMISSION_REJECT', `the tokens of "${scope}" are used up`, {
      reason: 'token_budget',
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
 * reported. The new sums of budgets are written in the same commit as the end.
 */
export function settle(turn: Turn, entry: JobEntry): void {
  const { limiter } = turn.state;
  const { reservation } = entry;
  if (!reservation) return;
  entry.reservation = undefined;
  if (entry.job.attempt === 0) return limiter.release(reservation, turn.now);
  limiter.settle(reservation, entry.usedTokens ?? entry.ask.tokens ?? 0, turn.now);
  for (const [scope, tokens] of limiter.spent(reservation)) {
    turn.put('spent', scope, { v: 1, tokens, at: turn.now }, 'settled');
  }
}

/** Drops the account of a deleted session, and the tokens that a former version counted for it. */
export function forgetSpent(turn: Turn, tenant: string, session: string): void {
  const scope = scopes.session(tenant, session);
  turn.state.limiter.forget(scope);
  if (turn.state.tables.spent.get(scope)) turn.put('spent', scope, null, 'session-over');
}
