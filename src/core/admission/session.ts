/** Sessions: their token use, their token budget, and the backend that holds their context. */

import type { Cause } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import type { JobSpec } from '../../model/job-spec.ts';
import { type AskRecord, scoped, uidOf } from '../../model/records.ts';
import type { SessionRecord, SessionThread } from '../../model/session-record.ts';
import type { HeardThread, SaidMessages } from '../ports/backend.ts';
import type { SessionLookup } from '../ports/new-job.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { eraseText } from './erasure.ts';
import { forgetSpent, sessionBudget } from './quota.ts';
import { checkRoom, findSession, restoreSession } from './session-archive.ts';
import type { Submission } from './submission.ts';

/**
 * Refuses a job that exceeds the token budget of its session: the session's own budget or else `sessions.token_budget`,
 * and no more than the limit for its scope. The estimates of the session's live jobs count as used.
 */
export function checkBudget(turn: Turn, { tenant, spec, tokens, session: lookup }: Submission): void {
  const { session_id: session } = spec;
  if (session === undefined) return;
  const record = findSession(turn, tenant, session, lookup);
  if (!turn.state.sessionOf(tenant, session)) checkRoom(turn);
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

/**
 * The first job of a session writes its record; the first after its time in the archive writes it again. A job below
 * another one that begins a session of its own name, as runs in the background do, notes where it comes from.
 */
export function beginSession(turn: Turn, { id, tenant, spec, session: lookup }: Submission): void {
  const { session_id: session } = spec;
  if (session === undefined || turn.state.sessionOf(tenant, session)) return;
  const archived = findSession(turn, tenant, session, lookup);
  if (archived) return void restoreSession(turn, archived);
  const begun = newSession(turn, tenant, session);
  const origin = originOf(turn, tenant, spec);
  if (!origin || spec.session_id !== id) return put(turn, begun, 'begun');
  put(turn, { ...begun, origin: origin.id }, 'begun');
  if (!origin.isOrigin) put(turn, { ...origin, isOrigin: true }, 'changed');
}

/** The session of the job above. */
function originOf(
  { state }: Turn,
  tenant: string,
  { parent_id: parent }: JobSpec,
): SessionRecord | undefined {
  const above = parent === undefined ? undefined : state.jobs.get(uidOf(tenant, parent));
  const session = above?.ask.spec.session_id;
  return session === undefined ? undefined : state.sessionOf(tenant, session);
}

const newSession = (turn: Turn, tenant: string, id: string): SessionRecord => ({
  v: 3,
  tenant,
  id,
  createdAt: turn.now,
  usedAt: turn.now,
  turns: 0,
  tokensUsed: 0,
  tokenBudget: undefined,
  threads: undefined,
  messages: undefined,
  metadata: undefined,
});

/** The most backends whose part in a conversation is kept: a record is written again at every turn. */
export const MAX_THREADS = 4;

/** An ended try of one of the session's jobs. */
export interface EndedTurn {
  readonly backend: string;
  readonly tokens: number;
  readonly heard: HeardThread | 'cached' | undefined;
}

/** A try of one of the session's jobs has ended: adds its tokens, and records what its backend has heard. */
export function noteUsed(turn: Turn, { ask }: JobEntry, { backend, tokens, heard }: EndedTurn): void {
  if (ask.spec.session_id === undefined) return;
  const known = turn.state.sessionOf(ask.tenant, ask.spec.session_id);
  if (!known) return;
  const after = {
    ...known,
    usedAt: turn.now,
    turns: known.turns + 1,
    tokensUsed: known.tokensUsed + tokens,
    threads: threadsAfter(known, ask, backend, heard),
  };
  put(turn, after, 'used');
}

/** The backend comes last, with what it has heard by now. Without a change of what it has, the threads stay as they are. */
function threadsAfter(
  { threads }: SessionRecord,
  { messages = 1 }: AskRecord,
  backend: string,
  heard: EndedTurn['heard'],
): SessionRecord['threads'] {
  if (heard === undefined) return threads;
  const others = (threads ?? []).filter((thread) => thread.backend !== backend);
  const thread: SessionThread =
    heard === 'cached'
      ? { backend, thread: undefined, heard: messages + 1, hash: undefined }
      : { backend, thread: heard.id, heard: heard.messages, hash: heard.hash };
  return [...others, thread].slice(-MAX_THREADS);
}

/** The backend is sent the whole conversation the next time: a try that has not succeeded may have been heard in part. */
export function forgetThread(turn: Turn, { ask }: JobEntry, backend: string): void {
  const { session_id: session } = ask.spec;
  const known = session === undefined ? undefined : turn.state.sessionOf(ask.tenant, session);
  if (!known?.threads?.some(({ backend: name, thread }) => name === backend && thread !== undefined)) return;
  const threads = known.threads.filter((thread) => thread.backend !== backend);
  put(turn, { ...known, threads: threads.length === 0 ? undefined : threads }, 'used');
}

export function setBudget(
  turn: Turn,
  tenant: string,
  id: string,
  tokenBudget: number | undefined,
  lookup?: SessionLookup,
): SessionRecord {
  const known = findSession(turn, tenant, id, lookup);
  if (!turn.state.sessionOf(tenant, id)) checkRoom(turn);
  const used = known && { ...known, usedAt: turn.state.sessionOf(tenant, id) ? known.usedAt : turn.now };
  const after = { ...(used ?? newSession(turn, tenant, id)), tokenBudget };
  put(turn, after, 'budget');
  return after;
}

/** The fields of a session that its users set. */
export type SessionContent = Partial<Pick<SessionRecord, 'messages' | 'metadata' | 'tokenBudget'>>;

export function createSession(
  turn: Turn,
  tenant: string,
  id: string,
  content: SessionContent,
  lookup?: SessionLookup,
): SessionRecord {
  if (findSession(turn, tenant, id, lookup))
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
  lookup?: SessionLookup,
): SessionRecord {
  const after = { ...assertSession(turn, tenant, id, lookup), usedAt: turn.now, metadata };
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

export function assertSession(turn: Turn, tenant: string, id: string, lookup?: SessionLookup): SessionRecord {
  const known = findSession(turn, tenant, id, lookup);
  if (!known) throw new OrchdError('NOT_FOUND', `there is no session "${id}"`);
  return known;
}

/**
 * Deletes a session, and orders the erasure of its texts. With `keepsBudget`, one that has a budget, of its own or by a
 * limit, is emptied instead: its budget and what was used of it stay, so that a caller who may not set budgets cannot
 * remove one.
 */
export function forgetSession(
  turn: Turn,
  tenant: string,
  id: string,
  keepsBudget = false,
  lookup?: SessionLookup,
): void {
  const known = assertSession(turn, tenant, id, lookup);
  eraseText(turn, tenant, id, known.isOrigin && known.createdAt);
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
