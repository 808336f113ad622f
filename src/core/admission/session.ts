/** Sessions: their token use, their token budget, and the backend that holds their context. */

import type { Cause } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import { type SessionRecord, scoped } from '../../model/records.ts';
import type { SaidMessages } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { forgetSpent, sessionBudget } from './quota.ts';
import type { Submission } from './submission.ts';

/** A session unused for this long is deleted. */
const UNUSED_TTL_MS = 30 * 86_400_000;
/**
 * Beyond this number sessions are deleted: of the tenant that has the most, the least recently used one that has no budget
 * of its own.
 */
const MAX_SESSIONS = 100_000;
/** The most sessions deleted in one tick, which bounds its time. */
const MAX_EXPIRED_PER_TICK = 5000;

/**
 * Refuses a job that exceeds the token budget of its session: the session's own budget or else `sessions.token_budget`,
 * and no more than the limit for its scope. The estimates of the session's live jobs count as used.
 */
export function checkBudget(turn: Turn, { tenant, spec, tokens }: Submission): void {
  const { session_id: session } = spec;
  if (session === undefined) return;
  const record = turn.state.sessionOf(tenant, session);
  const budget = Math.min(
    record?.tokenBudget ?? turn.settings.pools.sessionTokenBudget ?? Number.POSITIVE_INFINITY,
    sessionBudget(turn, tenant, session) ?? Number.POSITIVE_INFINITY,
  );
  const used = (record?.tokensUsed ?? 0) + turn.state.roster.reservedTokens(tenant, session);
  if (used + (tokens ?? 0) <= budget) return;
  throw new OrchdError(
    'ADMISSION_REJECT',
    `the session has used ${used} of its ${budget} tokens, and the job may need ${tokens ?? 0}`,
    { reason: 'token_budget', field: 'session_id' },
  );
}

/** The first job of a session writes its record. */
export function beginSession(turn: Turn, { tenant, spec: { session_id: session } }: Submission): void {
  if (session === undefined) return;
  const known = turn.state.sessionOf(tenant, session);
  if (!known) put(turn, newSession(turn, tenant, session), 'begun');
}

const newSession = (turn: Turn, tenant: string, id: string): SessionRecord => ({
  v: 2,
  tenant,
  id,
  createdAt: turn.now,
  usedAt: turn.now,
  turns: 0,
  tokensUsed: 0,
  tokenBudget: undefined,
  backend: undefined,
  messages: undefined,
  metadata: undefined,
});

/** A try of one of the session's jobs has ended: adds its tokens, and records the backend that has its context now. */
export function noteUsed(turn: Turn, { ask }: JobEntry, backend: string, tokens: number): void {
  if (ask.spec.session_id === undefined) return;
  const known = turn.state.sessionOf(ask.tenant, ask.spec.session_id);
  if (!known) return;
  const after = {
    ...known,
    usedAt: turn.now,
    turns: known.turns + 1,
    tokensUsed: known.tokensUsed + tokens,
    backend,
  };
  put(turn, after, 'used');
}

export function setBudget(
  turn: Turn,
  tenant: string,
  id: string,
  tokenBudget: number | undefined,
): SessionRecord {
  const known = turn.state.sessionOf(tenant, id);
  if (!known) checkRoom(turn);
  const after = { ...(known ?? newSession(turn, tenant, id)), tokenBudget };
  put(turn, after, 'budget');
  return after;
}

function checkRoom({ state: { sessions } }: Turn): void {
  if (sessions.size < MAX_SESSIONS || sessions.replaceable() !== undefined) return;
  throw new OrchdError('ADMISSION_REJECT', `${MAX_SESSIONS} sessions have a budget of their own`, {
    reason: 'too_many_sessions',
  });
}

/** The fields of a session that its users set. */
export type SessionContent = Partial<Pick<SessionRecord, 'messages' | 'metadata' | 'tokenBudget'>>;

export function createSession(
  turn: Turn,
  tenant: string,
  id: string,
  content: SessionContent,
): SessionRecord {
  if (turn.state.sessionOf(tenant, id))
    throw new OrchdError('SESSION_CONFLICT', `there is a session "${id}" already`, { field: 'session_id' });
  checkRoom(turn);
  const after = { ...newSession(turn, tenant, id), ...content };
  put(turn, after, 'begun');
  return after;
}

/** Replaces the metadata of a session. */
export function setMetadata(
  turn: Turn,
  tenant: string,
  id: string,
  metadata: SessionRecord['metadata'],
): SessionRecord {
  const after = { ...assertSession(turn, tenant, id), usedAt: turn.now, metadata };
  put(turn, after, 'changed');
  return after;
}

/** A run of the session has answered: what it has heard and said belongs to the conversation from now on. */
export function noteSaid(turn: Turn, { ask }: JobEntry, { messages, from }: SaidMessages): void {
  const { session_id: session } = ask.spec;
  const known = session === undefined ? undefined : turn.state.sessionOf(ask.tenant, session);
  // Otherwise it is not the conversation that the run began with: the session was deleted since, and is another one now.
  if (!known || (known.messages?.values ?? 0) !== from) return;
  put(turn, { ...known, usedAt: turn.now, messages }, 'said');
}

export function assertSession(turn: Turn, tenant: string, id: string): SessionRecord {
  const known = turn.state.sessionOf(tenant, id);
  if (!known) throw new OrchdError('NOT_FOUND', `there is no session "${id}"`);
  return known;
}

/**
 * Deletes a session. With `keepsBudget`, one that has a budget, of its own or by a limit, is emptied instead: its budget and
 * what was used of it stay, so that a caller who may not set budgets cannot remove one.
 */
export function forgetSession(turn: Turn, tenant: string, id: string, keepsBudget = false): void {
  const known = assertSession(turn, tenant, id);
  if (keepsBudget && (known.tokenBudget ?? sessionBudget(turn, tenant, id)) !== undefined)
    return put(turn, { ...newSession(turn, tenant, id), ...budgetOf(known) }, 'deleted');
  turn.put('session', scoped(tenant, id), null, 'deleted');
  forgetSpent(turn, tenant, id);
}

const budgetOf = ({ tokenBudget, tokensUsed, createdAt }: SessionRecord) => ({
  tokenBudget,
  tokensUsed,
  createdAt,
});

function put(turn: Turn, record: SessionRecord, cause: Cause): void {
  turn.put('session', scoped(record.tenant, record.id), record, cause);
}

/** At every tick. Sessions are in the order of their last use, so the first loop ends at the first that stays. */
export function expireSessions(turn: Turn): void {
  const { sessions } = turn.state;
  let expired = 0;
  for (const [id, record] of sessions.entries()) {
    const isUnused = turn.now - record.usedAt > UNUSED_TTL_MS;
    if (!isUnused || expired++ >= MAX_EXPIRED_PER_TICK) break;
    expire(turn, id, record);
  }
  while (sessions.size > MAX_SESSIONS && expired++ < MAX_EXPIRED_PER_TICK) {
    const id = sessions.replaceable();
    const record = id === undefined ? undefined : sessions.get(id);
    if (id === undefined || !record) return;
    expire(turn, id, record);
  }
}

function expire(turn: Turn, id: string, record: SessionRecord): void {
  turn.put('session', id, null, 'expired');
  forgetSpent(turn, record.tenant, record.id);
}
