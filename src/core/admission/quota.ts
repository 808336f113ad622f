/** What jobs take out of the limits: reserved when they are admitted, settled when it is known what they used. */
import { OrchdError } from '../../model/errors.ts';
import type { AskRecord, LimitSpec, LimitsRecord } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from '../entry.ts';
import type { Submission } from '../events.ts';
import type { Turn } from '../turn.ts';
import { scopes } from './limits/limit.ts';
import type { Limiter, Reservation } from './limits/limiter.ts';

/** The one record of this kind. */
export const LIMITS_ID = 'limits';

/** Those of the configuration, unless others were set since. */
export const limitsOf = (turn: Turn): readonly LimitSpec[] =>
  turn.state.tables.limits.get(LIMITS_ID)?.limits ?? turn.settings.limits;

/** From here on these hold. Nothing changes where one makes no sense. */
export function setLimits(turn: Turn, limits: readonly LimitSpec[], by: string): LimitsRecord {
  turn.state.limiter.configure(limits, turn.now);
  const record: LimitsRecord = { v: 1, by, at: turn.now, limits };
  turn.put('limits', LIMITS_ID, record, `set:${by}`);
  return record;
}

/** A brain begins: what its jobs may use is taken out of full accounts. */
export function openLimits(turn: Turn): void {
  const limits = limitsOf(turn);
  if (limits.length === 0) return;
  turn.state.limiter.configure(limits, turn.now);
  for (const entry of turn.state.jobs.values()) {
    if (isTerminal(entry.rec.state)) continue;
    const cost = { requests: 0, tokens: entry.ask.tokens ?? 0 };
    entry.reservation = turn.state.limiter.restore(scopesOf(turn, entry.ask), cost, turn.now);
  }
}

type Who = Pick<AskRecord, 'tenant' | 'principal' | 'submittedBy' | 'session' | 'model'>;

function scopesOf(turn: Turn, { tenant, principal, submittedBy, session, model }: Who): string[] {
  const named = [
    scopes.global,
    scopes.tenant(tenant),
    scopes.agent(tenant, principal),
    scopes.token(submittedBy),
  ];
  if (session !== undefined) named.push(scopes.session(tenant, session));
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
    ...(retryAfterMs !== undefined && { retryAfterMs: Math.ceil(retryAfterMs) }),
  });
}

/** The job is over. One that never began has used nothing; of one that did not say, the estimate stands. */
export function settle(limiter: Limiter, entry: JobEntry, reservation: Reservation, now: number): void {
  entry.reservation = undefined;
  if (entry.rec.attempt === 0) limiter.release(reservation, now);
  else limiter.settle(reservation, entry.usedTokens ?? entry.ask.tokens ?? 0, now);
}
