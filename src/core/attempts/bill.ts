/** Closes the bill of an attempt: what it has cost, and how that is known. */
import type { Cause } from '../../model/causes.ts';
import { type Bill, costOf } from '../../model/price.ts';
import type { AttemptRecord } from '../../model/records.ts';
import type { TokenCounts } from '../../model/usage.ts';
import { scopes } from '../limits/limit.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';

/** The causes of an end after which nothing can have been done for the attempt. */
const NOT_RUN: ReadonlySet<Cause> = new Set<Cause>(['not-run', 'token-taken', 'tombstoned', 'returned']);

const NO_TOKENS: TokenCounts = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };

type Closed = Pick<AttemptRecord, 'bill'>;
const NO_BILL: Closed = {};

/**
 * The execution has ended. Without counts, or with counts of only a part of it, nobody knows what it has cost: what was
 * reserved counts, or what is known of the cost if that is more.
 */
export function billOfEnd(
  turn: Turn,
  entry: JobEntry,
  attempt: AttemptRecord,
  usage: TokenCounts | undefined,
  isPartial: boolean,
): Closed {
  const { bill } = attempt;
  if (!bill) return NO_BILL;
  if (!usage && hasTokenRates(bill)) return { bill: assumed(bill) };
  const ms = pricedMs(turn, entry, attempt, bill);
  const cost = costOf(bill.rates, usage ?? NO_TOKENS, { images: entry.ask.images ?? 0, ms });
  if (isPartial && hasTokenRates(bill) && cost < bill.reserved) return { bill: assumed(bill) };
  return { bill: { ...bill, cost, basis: 'told' } };
}

/**
 * How long the attempt held its slot. A bound counts on the timeout: what an executor takes longer to stop, and how long a
 * lost attempt was looked for, is our time and no bill of a provider.
 */
function pricedMs(turn: Turn, { ask }: JobEntry, { acceptedAt }: AttemptRecord, { isBound }: Bill): number {
  if (acceptedAt === undefined) return 0;
  const ms = Math.max(0, turn.now - acceptedAt);
  return isBound ? Math.min(ms, ask.spec.timeout_ms ?? ms) : ms;
}

const hasTokenRates = ({ rates: [input, cacheRead, cacheWrite, output, reasoning] }: Bill): boolean =>
  input > 0 || cacheRead > 0 || cacheWrite > 0 || output > 0 || reasoning > 0;

/** Nothing was done for the attempt. */
export const billOfNothing = ({ bill }: AttemptRecord): Closed =>
  bill ? { bill: { ...bill, cost: 0, basis: 'nothing' } } : NO_BILL;

/** The attempt was given up. Unless it certainly did not run, it may have cost all that was reserved. */
export function billOfAbandoned(attempt: AttemptRecord, cause: Cause): Closed {
  if (NOT_RUN.has(cause)) return billOfNothing(attempt);
  return attempt.bill ? { bill: assumed(attempt.bill) } : NO_BILL;
}

const assumed = (bill: Bill): Bill => ({ ...bill, cost: bill.reserved, basis: 'assumed' });

/**
 * A provider that bills more than its bound has broken what a hard budget relies on: its seat gets no job until an
 * operator resumes it.
 */
export function pauseAfterOverrun(turn: Turn, token: string, backend: string, { bill }: Closed): void {
  if (!bill?.isBound || bill.basis !== 'told' || bill.cost === undefined || bill.cost <= bill.reserved)
    return;
  const scope = scopes.seat(backend);
  const known = turn.state.tables.spent.get(scope) ?? { v: 1, tokens: 0, at: turn.now };
  const paused = { at: turn.now, token, excess: bill.cost - bill.reserved };
  turn.put('spent', scope, { ...known, paused }, 'overrun');
  turn.fleet.setPaused(backend, true);
}

/** Ends the pause of a seat. Returns whether it was paused. */
export function resumeSeat(turn: Turn, backend: string, by: string): boolean {
  const scope = scopes.seat(backend);
  const known = turn.state.tables.spent.get(scope);
  turn.fleet.setPaused(backend, false);
  if (!known?.paused) return false;
  const { paused: _, ...rest } = known;
  turn.put('spent', scope, rest, { is: 'resume', by });
  return true;
}

export const isPaused = ({ state }: Turn, backend: string): boolean =>
  state.tables.spent.get(scopes.seat(backend))?.paused !== undefined;
