/**
 * Stores what scopes have used of their limits, in the commit of what they used it for: a later brain goes on where this
 * one was. Each scope that has changed is written once for all events of a commit.
 */
import type { Cause } from '../../model/causes.ts';
import type { SpentRecord } from '../../model/limit-records.ts';
import type { Turn } from '../turn.ts';

export function storeSpent(turn: Turn): void {
  const { limiter } = turn.state;
  const { gates } = turn.queue;
  if (limiter.dirty.size === 0 && gates.dirty.size === 0) return;
  const scopes = new Set(limiter.dirty);
  for (const { name } of gates.dirty) scopes.add(name);
  limiter.dirty.clear();
  gates.dirty.clear();
  for (const scope of scopes) storeScope(turn, scope);
}

function storeScope(turn: Turn, scope: string): void {
  const known = turn.state.tables.spent.get(scope);
  const kept = turn.state.limiter.kept(scope, turn.now);
  const gate = turn.queue.gates.find(scope, turn.now)?.kept();
  const { paused } = known ?? {};
  if (!kept && !gate && !paused) {
    if (known) turn.put('spent', scope, null, 'settled');
    return;
  }
  const record: SpentRecord = {
    v: 1,
    tokens: 0,
    at: turn.now,
    ...kept,
    ...gate,
    ...(paused && { paused }),
  };
  turn.put('spent', scope, record, causeOf(known, record));
}

/** Names the share of its budget that a scope reaches with this commit: only then are people warned. */
function causeOf(before: SpentRecord | undefined, { warned, window }: SpentRecord): Cause {
  const told = before?.window === window ? (before?.warned ?? 0) : 0;
  return warned !== undefined && warned > told ? { is: 'budget-share', percent: warned } : 'settled';
}
