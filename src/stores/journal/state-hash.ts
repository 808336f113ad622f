/** One value for everything that a state's records say: equal for equal records, however they came about. */
import { createHash } from 'node:crypto';
import type { State } from '../../core/state/state.ts';
import { stableHash } from '../../kit/hash.ts';
import { KEPT_KINDS } from '../../model/records.ts';

export interface HashScope {
  /** Leave out jobs that have ended: a checkpoint lets go of those that the history has. */
  readonly withoutEnded?: boolean;
  /** Leave out entries of the failure cache that no longer hold at this instant: a checkpoint drops them. */
  readonly failuresAt?: number;
}

export function stateHash(state: State, scope: HashScope = {}): string {
  const hash = createHash('sha256');
  for (const uid of [...state.jobs.keys()].sort()) {
    const entry = state.jobs.get(uid);
    if (!entry || (scope.withoutEnded && state.ended.has(entry))) continue;
    const { ask, job, open, past = [], seq } = entry;
    hash.update(stableHash([uid, seq, ask, job, open ?? null, past]));
  }
  for (const [id, failure] of [...state.failures].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (failure.until > (scope.failuresAt ?? Number.NEGATIVE_INFINITY))
      hash.update(stableHash([id, failure]));
  }
  for (const { id, record } of [...state.leases.all()].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    hash.update(stableHash([id, record]));
  }
  for (const kind of KEPT_KINDS) {
    const records = [...state.tables[kind].entries()].sort(([a], [b]) => (a < b ? -1 : 1));
    if (records.length > 0) hash.update(stableHash([kind, records]));
  }
  return hash.update(stableHash([state.seq, state.brain ?? null])).digest('hex');
}
