/** A hash of recovered records: equal for equal records, in whatever way they were recovered. */
import { createHash } from 'node:crypto';
import { stableHash } from '../../../kit/hash.ts';
import { SMALL_KINDS } from '../../../model/records.ts';
import { isEnded, type OtherRecord, type Records } from '../../records.ts';

export interface HashScope {
  /** Leaves out ended jobs, since a checkpoint drops those that the history holds. */
  readonly withoutEnded?: boolean;
  /** Leaves out failure cache entries that have expired at this instant, since a checkpoint drops them. */
  readonly failuresAt?: number;
}

export function stateHash(records: Records, scope: HashScope = {}): string {
  const hash = createHash('sha256');
  for (const bundle of [...records.jobs.values()].sort((a, b) => (a.uid < b.uid ? -1 : 1))) {
    if (scope.withoutEnded && isEnded(bundle)) continue;
    const { uid, seq, ask, job, attempts } = bundle;
    hash.update(stableHash([uid, seq, ask, job, attempts]));
  }
  const failuresAt = scope.failuresAt ?? Number.NEGATIVE_INFINITY;
  for (const { id, after } of byId(records.ofKind('failure'))) {
    if (after.until > failuresAt) hash.update(stableHash([id, after]));
  }
  for (const kind of ['lease', ...SMALL_KINDS] as const) {
    const sorted = byId<OtherRecord>(records.ofKind(kind));
    if (sorted.length > 0) hash.update(stableHash([kind, sorted.map(({ id, after }) => [id, after])]));
  }
  return hash.update(stableHash([records.seq, records.brain ?? null])).digest('hex');
}

const byId = <T extends { readonly id: string }>(records: Iterable<T>): T[] =>
  [...records].sort((a, b) => (a.id < b.id ? -1 : 1));
