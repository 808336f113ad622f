/** The erasure of the texts of a deleted session: a record says so until the key of the session is dropped. */
import { scoped } from '../../model/records.ts';
import type { Turn } from '../turn.ts';

/**
 * Part of the commit that deletes the session: after a crash the next brain drops the key. `othersSince`: see
 * ErasureRecord.
 */
export function eraseText(turn: Turn, tenant: string, session: string, othersSince?: number): void {
  const id = scoped(tenant, session);
  const known = turn.state.tables.erasure.get(id);
  const since = known?.othersSince ?? othersSince;
  const record = { v: 1, tenant, session, n: (known?.n ?? 0) + 1 } as const;
  turn.put('erasure', id, since === undefined ? record : { ...record, othersSince: since }, 'deleted');
}

/** Of a session that nobody has deleted, once nothing is left of it. */
export function eraseUnused(turn: Turn, tenant: string, session: string): void {
  const { state } = turn;
  const isUsed = state.sessionOf(tenant, session) ?? state.roster.inSession(tenant, session).size > 0;
  if (!isUsed) eraseText(turn, tenant, session);
}

/** The key of deletion `n` is gone. */
export function noteErased(turn: Turn, id: string, n: number): void {
  if (turn.state.tables.erasure.get(id)?.n === n) turn.put('erasure', id, null, 'settled');
}
