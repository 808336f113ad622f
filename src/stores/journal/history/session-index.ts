/** The archived sessions inside the history of a journal. */

import type { ArchiveQuery, ArchiveReads, SessionName } from '../../../core/ports/sessions.ts';
import { namedBodies } from '../../../model/named-bodies.ts';
import type { SessionRecord } from '../../../model/session-record.ts';
import { ArchivedSessions } from '../../archived-sessions.ts';
import { readSession } from '../../session-text.ts';
import { type FileSpan, spanOf } from '../blobs.ts';

/** Where the index is kept in a file, every method throws HistoryDamaged once it meets damage there. */
export interface SessionIndex {
  /** `rows` are texts made by sessionText(). */
  put(rows: readonly string[]): void;
  drop(sessions: readonly SessionName[]): void;
  get(tenant: string, id: string): SessionRecord | undefined;
  list(query: ArchiveQuery): SessionRecord[];
  oldest(usedBefore: number, limit: number): SessionRecord[];
  isEmpty(): boolean;
  /** All sessions, in any order. */
  all(): Iterable<SessionRecord>;
  /** True where the span of a session's files includes this file. */
  usesBlobFile(file: number): boolean;
  /** The first and the last blob file of each session. */
  blobFiles(): number[];
}

/** `index` is asked for it at each read: it opens its file again after a repair. */
export const archiveReadsOf = (index: { readonly sessions: SessionIndex }): ArchiveReads => ({
  get: async (tenant, id) => index.sessions.get(tenant, id),
  list: async (query) => index.sessions.list(query),
  oldest: async (usedBefore, limit) => index.sessions.oldest(usedBefore, limit),
  isEmpty: async () => index.sessions.isEmpty(),
});

/** The first and the last blob file that a session needs. */
export const sessionFiles = (record: SessionRecord): FileSpan | undefined =>
  spanOf(namedBodies('session', record));

/** An index in memory: for simulations whose disk SQLite cannot write to, and for a file that has no table of sessions. */
export function memorySessions(): SessionIndex {
  const sessions = new ArchivedSessions();
  const spans = (): FileSpan[] => [...sessions.all()].flatMap((record) => sessionFiles(record) ?? []);
  return {
    put: (rows) => sessions.put(rows.map(readSession)),
    drop: (names) => sessions.drop(names),
    get: (tenant, id) => sessions.get(tenant, id),
    list: (query) => sessions.list(query),
    oldest: (usedBefore, limit) => sessions.oldest(usedBefore, limit),
    isEmpty: () => sessions.isEmpty(),
    all: () => sessions.all(),
    usesBlobFile: (file) => spans().some(({ low, high }) => low <= file && file <= high),
    blobFiles: () => [...new Set(spans().flatMap(({ low, high }) => [low, high]))],
  };
}
