/** Lists of sessions: those in memory, or those in the archive, page by page. */

import { compareUse, type SessionPlace } from '../core/ports/sessions.ts';
import type { State } from '../core/state/state.ts';
import type { SessionPage, SessionSummary } from '../model/http/session-lists.ts';
import type { SessionRecord } from '../model/session-record.ts';
import type { SessionArchive } from './session-archive.ts';

export interface SessionListRequest {
  readonly tenant: string;
  readonly archived?: boolean | undefined;
  /** The cursor of the previous page. */
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

const DEFAULT_LIMIT = 100;

export async function listSessions(
  state: State,
  archive: SessionArchive,
  { tenant, archived = false, cursor, limit = DEFAULT_LIMIT }: SessionListRequest,
): Promise<SessionPage> {
  const before = cursor === undefined ? undefined : placeOf(cursor);
  // One more than the page has tells whether there is another page.
  const query = { tenant, before, limit: limit + 1 };
  const found = archived ? await archive.list(query) : sessionsInMemory(state, query);
  const page = found.slice(0, limit);
  const last = page.at(-1);
  return {
    sessions: page.map((record) => summaryOf(state, record, archived)),
    ...(found.length > limit && last && { cursor: `${last.usedAt}.${last.id}` }),
  };
}

function placeOf(cursor: string): SessionPlace {
  const end = cursor.indexOf('.');
  return { usedAt: Number(cursor.slice(0, end)), id: cursor.slice(end + 1) };
}

/** Keeps the sessions of the page alone while it goes through those of a tenant, of which there may be many. */
function sessionsInMemory(
  { sessions }: State,
  { tenant, before, limit }: { tenant: string; before: SessionPlace | undefined; limit: number },
): SessionRecord[] {
  let first: SessionRecord[] = [];
  for (const session of sessions.ofTenant(tenant)) {
    if (before && compareUse(before, session) >= 0) continue;
    if (first.push(session) >= 2 * limit) first = first.sort(compareUse).slice(0, limit);
  }
  return first.sort(compareUse).slice(0, limit);
}

const summaryOf = (state: State, record: SessionRecord, archived: boolean): SessionSummary => ({
  session_id: record.id,
  created_at: record.createdAt,
  used_at: record.usedAt,
  turns: record.turns,
  tokens_used: record.tokensUsed,
  token_budget: record.tokenBudget ?? null,
  messages: record.messages?.values ?? 0,
  live_jobs: state.roster.inSession(record.tenant, record.id).size,
  archived,
});
