/** The port to the archive of sessions: conversations that were idle for long are kept there and not in memory. */
import type { SessionRecord } from '../../model/session-record.ts';

/** Names a session of a tenant. */
export type SessionName = Pick<SessionRecord, 'tenant' | 'id'>;

/** A place in a list of sessions: the list goes on with the sessions that come after this one. */
export type SessionPlace = Pick<SessionRecord, 'usedAt' | 'id'>;

export interface ArchiveQuery {
  readonly tenant: string;
  /** Only sessions that come after this place in the order of the list. */
  readonly before?: SessionPlace | undefined;
  readonly limit: number;
}

export interface ArchiveReads {
  get(tenant: string, id: string): Promise<SessionRecord | undefined>;
  /** The session that was used last comes first; of those of one instant, the one with the highest id. */
  list(query: ArchiveQuery): Promise<SessionRecord[]>;
  /** At most `limit` sessions of all tenants that were last used before this instant, the oldest use first. */
  oldest(usedBefore: number, limit: number): Promise<SessionRecord[]>;
  isEmpty(): Promise<boolean>;
}

/**
 * The records as they were when their sessions left memory. A session that is in memory as well counts as it is there: its
 * archived record is an earlier version.
 */
export interface SessionArchive extends ArchiveReads {
  /** Settles when the records are durable; each replaces an archived one of the same name. */
  put(records: readonly SessionRecord[]): Promise<void>;
  /** Settles when it is durable that the archive has none of these sessions. */
  drop(sessions: readonly SessionName[]): Promise<void>;
}

/** Negative where `a` comes before `b` in a list of sessions. */
export const compareUse = (a: SessionPlace, b: SessionPlace): number =>
  b.usedAt - a.usedAt || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
