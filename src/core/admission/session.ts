/** Conversations: how much they have used, how much they may, and where their context is. */

import type { Cause } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import { type SessionRecord, scoped } from '../../model/records.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { Turn } from '../turn.ts';
import { forgetSpent } from './quota.ts';
import type { Submission } from './submission.ts';

/** A session that nobody has used for this long is forgotten. */
const KEPT_MS = 30 * 86_400_000;
/** More than this are not kept: the one that was unused for longest goes. */
const MAX_SESSIONS = 100_000;
const ENDED_AT_ONCE = 5000;

/** Refuses a job whose session has used up what it may; what its other jobs may still use counts as used. */
export function checkBudget(turn: Turn, { tenant, spec, tokens }: Submission): void {
  const { session_id: session } = spec;
  if (session === undefined) return;
  const record = turn.state.sessionOf(tenant, session);
  const budget = record?.tokenBudget ?? turn.settings.pools.sessionTokenBudget;
  if (budget === undefined) return;
  const used = (record?.tokensUsed ?? 0) + turn.state.roster.reserved(tenant, session);
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
  // Written once; what is used is written with the end of each job.
  if (!known) put(turn, fresh(turn, tenant, session), 'begun');
}

const fresh = (turn: Turn, tenant: string, id: string): SessionRecord => ({
  v: 1,
  tenant,
  id,
  createdAt: turn.now,
  usedAt: turn.now,
  turns: 0,
  tokensUsed: 0,
  tokenBudget: undefined,
  backend: undefined,
});

/** A try of one of its jobs has ended: what it used is settled, and its context is there. */
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
  const after = { ...(turn.state.sessionOf(tenant, id) ?? fresh(turn, tenant, id)), tokenBudget };
  put(turn, after, 'budget');
  return after;
}

export function forgetSession(turn: Turn, tenant: string, id: string): SessionRecord {
  const known = turn.state.sessionOf(tenant, id);
  if (!known) throw new OrchdError('NOT_FOUND', `there is no session "${id}"`);
  turn.put('session', scoped(tenant, id), null, 'deleted');
  forgetSpent(turn, tenant, id);
  return known;
}

function put(turn: Turn, record: SessionRecord, cause: Cause): void {
  turn.put('session', scoped(record.tenant, record.id), record, cause);
}

/** At every tick: those that have not been used for long, a bounded number of them. */
export function expireSessions(turn: Turn): void {
  const { sessions } = turn.state;
  let ended = 0;
  for (const [id, record] of sessions.entries()) {
    const isOver = turn.now - record.usedAt > KEPT_MS || sessions.size > MAX_SESSIONS;
    if (!isOver || ended++ >= ENDED_AT_ONCE) return;
    turn.put('session', id, null, 'expired');
    forgetSpent(turn, record.tenant, record.id);
  }
}
