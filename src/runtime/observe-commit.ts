/** Notifies an observer of a durable commit: its changes, its duration, and the tokens that backends have reported. */
import type { EngineEvent } from '../core/engine/areas.ts';
import type { Outcome, UsedTokens } from '../core/ports/backend.ts';
import { type Change, jobOfToken } from '../model/records.ts';
import type { Commit } from './loop.ts';
import type { ObservedState, Observer } from './observer.ts';

export function observeCommit(
  observer: Observer,
  changes: readonly Change[],
  now: number,
  { events, tookMs }: Commit,
  observed: ObservedState,
): void {
  observer.changed(changes, now, observed);
  observer.committed?.(tookMs);
  for (const [token, tokens] of usedIn(events, changes)) observer.used?.(tokens, jobOfToken(token), observed);
}

/**
 * The tokens of the attempts that succeeded in these changes. Several reports of one attempt may arrive (its end, and the
 * answer to an inspection); only the commit that ends the attempt counts it.
 */
function usedIn(events: readonly EngineEvent[], changes: readonly Change[]): ReadonlyMap<string, UsedTokens> {
  const reported = new Map<string, UsedTokens>();
  for (const event of events) {
    const outcome = outcomeIn(event);
    if (outcome?.outcome.ok === true && outcome.outcome.usage)
      reported.set(outcome.token, outcome.outcome.usage);
  }
  if (reported.size === 0) return reported;
  const succeeded = new Set<string>();
  for (const { kind, id, after } of changes)
    if (kind === 'attempt' && after?.state === 'ended' && after.outcome === 'succeeded') succeeded.add(id);
  for (const token of reported.keys()) if (!succeeded.has(token)) reported.delete(token);
  return reported;
}

function outcomeIn(event: EngineEvent): { readonly token: string; readonly outcome: Outcome } | undefined {
  switch (event.type) {
    case 'outcome':
      return event;
    case 'found':
      return event.finding.is === 'ended' ? { token: event.token, ...event.finding } : undefined;
    case 'killed':
      return event.answer.is === 'ended' ? { token: event.token, ...event.answer } : undefined;
    default:
      return undefined;
  }
}
