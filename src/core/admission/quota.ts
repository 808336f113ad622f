/** What jobs take out of the limits: reserved when they are admitted, settled when it is known what they used. */

import { OrchdError } from '../../model/errors.ts';
import type { AskRecord, LimitSpec, LimitsRecord } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import { scopes } from '../limits/limit.ts';
import type { Reservation } from '../limits/limiter.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

/** The one record of this kind. */
export const LIMITS_ID = 'limits';

const USUAL_WAIT_MS = 1000;

/** Those of the configuration, unless others were set since. */
export const limitsOf = (turn: Turn): readonly LimitSpec[] =>
  turn.state.tables.limits.get(LIMITS_ID)?.limits ?? turn.settings.limits;

/** From here on these hold. Nothing changes where one makes no sense. */
export function setLimits(turn: Turn, limits: readonly LimitSpec[], by: string): LimitsRecord {
  apply(turn, limits);
  const record: LimitsRecord = { v: 1, by, at: turn.now, limits };
  turn.put('limits', LIMITS_ID, record, { is: 'set', by });
  return record;
}

/** A brain begins: budgets are what they were, rates begin anew, and what live jobs may use is taken from both. */
export function openLimits(turn: Turn): void {
  const limits = limitsOf(turn);
  if (limits.length > 0) apply(turn, limits);
}

function apply(turn: Turn, limits: readonly LimitSpec[]): void {
  const { limiter, tables, jobs } = turn.state;
  limiter.configure(limits, turn.now);
  for (const [scope, { tokens }] of tables.spent.entries()) limiter.load(scope, tokens, turn.now);
  for (const entry of jobs.values()) {
    // While nothing is limited nothing is counted: what came before the first limit is taken now.
    if (entry.reservation || isTerminal(entry.job.state)) continue;
    const cost = { requests: 0, tokens: entry.ask.tokens ?? 0 };
    entry.reservation = limiter.restore(scopesOf(turn, entry.ask), cost, turn.now);
  }
}

type Who = Pick<AskRecord, 'tenant' | 'submittedBy' | 'spec'>;

function scopesOf(turn: Turn, { tenant, submittedBy, spec }: Who): string[] {
  const { agent, session_id, model } = spec;
  const named = [
    scopes.global,
    scopes.tenant(tenant),
    scopes.agent(tenant, agent),
    scopes.token(submittedBy),
  ];
  if (session_id !== undefined) named.push(scopes.session(tenant, session_id));
  // By whichever of its names it was asked for.
  if (model !== undefined) named.push(scopes.model(turn.state.catalog.find(model)?.id ?? model));
  return named;
}

/**
 * Refuses what is over a limit; says which one, and when to come back. What is refused by the check after it has
 * taken nothing.
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
    // When a place is free nobody can say; about how often one is, the queue has measured.
    retryAfterMs: Math.ceil(retryAfterMs ?? turn.queue.startRate.retryAfterMs(turn.now) ?? USUAL_WAIT_MS),
  });
}

/**
 * The job is over. One that never began has used nothing; of one that did not say, the estimate stands. What it used
 * of a budget is written with its end.
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

/** A session is over: nobody asks again what it has spent. */
export function forgetSpent(turn: Turn, tenant: string, session: string): void {
  const scope = scopes.session(tenant, session);
  turn.state.limiter.forget(scope);
  if (turn.state.tables.spent.get(scope)) turn.put('spent', scope, null, 'session-over');
}
