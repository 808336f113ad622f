/** Events of sessions, and of the limits that callers share. */

import type { LimitSpec } from '../../model/limit-records.ts';
import { DEFAULT_TENANT } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { eraseUnused, noteErased } from '../admission/erasure.ts';
import { reserveLive, setKeyLimits, setLimits } from '../admission/quota.ts';
import {
  assertSession,
  createSession,
  forgetSession,
  type SessionContent,
  setBudget,
  setMetadata,
} from '../admission/session.ts';
import { archiveSessions, expireArchived } from '../admission/session-archive.ts';
import { cancelOne, someToCancel } from '../attempts/operator-commands.ts';
import type { SessionLookup } from '../ports/new-job.ts';
import type { SessionName } from '../ports/sessions.ts';
import { type Handlers, mayRefuse, needsDiskSpace } from './handler.ts';

export type SessionEvent =
  | {
      readonly type: 'budget';
      readonly tenant: string;
      readonly id: string;
      readonly tokenBudget: number | undefined;
      /** What was found in the archive, if the session was not in memory. */
      readonly lookup?: SessionLookup;
    }
  /** The archive has these records: they may leave memory. */
  | { readonly type: 'archive-sessions'; readonly records: readonly SessionRecord[] }
  /** The archive will delete these sessions, whose retention is over. */
  | { readonly type: 'expire-archived'; readonly sessions: readonly SessionName[] }
  | {
      readonly type: 'create-session';
      readonly tenant: string;
      readonly id: string;
      readonly content: SessionContent;
      readonly lookup?: SessionLookup;
    }
  | {
      readonly type: 'session-metadata';
      readonly tenant: string;
      readonly id: string;
      readonly metadata: SessionRecord['metadata'];
      readonly lookup?: SessionLookup;
    }
  | {
      readonly type: 'forget-session';
      readonly tenant: string;
      readonly id: string;
      readonly by: string;
      /** Keeps the budget of the session and what was used of it. */
      readonly keepsBudget?: boolean;
      /** What was found in the archive, if the session was not in memory. */
      readonly lookup?: SessionLookup;
    }
  /** Nothing of the session is in the history; its key is to be dropped if there is no session of this name either. */
  | { readonly type: 'erase-unused'; readonly tenant: string; readonly id: string }
  /** The key of a deleted session is gone; `id` and `n` are those of its erasure record. */
  | { readonly type: 'erased'; readonly id: string; readonly n: number }
  | {
      readonly type: 'limits';
      readonly limits: readonly LimitSpec[];
      readonly by: string;
      /** The tenant whose limits are replaced; those of the default tenant, the operator's, hold for all. */
      readonly tenant?: string;
    }
  /** The budgets that the token file gives to tokens; they replace the former ones. */
  | { readonly type: 'key-limits'; readonly limits: readonly LimitSpec[] }
  /** Charges live jobs to limits that were set after they were admitted; repeated until the reply is not partial. */
  | { readonly type: 'reserve-live' };

/** A step charges at most so many jobs: it must not keep the loop for long. */
export const RESERVED_PER_STEP = 1000;

export const sessions = {
  budget: needsDiskSpace((turn, { tenant, id, tokenBudget, lookup }) =>
    setBudget(turn, tenant, id, tokenBudget, lookup),
  ),
  'archive-sessions': (turn, { records }) => archiveSessions(turn, records),
  'expire-archived': (turn, event) => expireArchived(turn, event.sessions),
  'create-session': needsDiskSpace((turn, { tenant, id, content, lookup }) =>
    createSession(turn, tenant, id, content, lookup),
  ),
  'session-metadata': needsDiskSpace((turn, { tenant, id, metadata, lookup }) =>
    setMetadata(turn, tenant, id, metadata, lookup),
  ),
  /**
   * Cancels the live jobs of a session, and deletes the session with the last of them. A session with many jobs takes
   * several such events; the reply says whether this was the last. The newest jobs go first: no job may start because
   * the one before it was cancelled.
   */
  'forget-session': mayRefuse((turn, { tenant, id, by, keepsBudget, lookup }) => {
    const { jobs, isAll } = someToCancel(turn.state.roster.inSession(tenant, id), 'newest');
    if (isAll) forgetSession(turn, tenant, id, keepsBudget, lookup);
    else assertSession(turn, tenant, id, lookup);
    for (const entry of jobs.toReversed()) cancelOne(turn, entry, by);
    return { isPartial: !isAll };
  }),
  'erase-unused': (turn, { tenant, id }) => eraseUnused(turn, tenant, id),
  erased: (turn, { id, n }) => noteErased(turn, id, n),
  limits: needsDiskSpace((turn, { limits, by, tenant = DEFAULT_TENANT }) =>
    setLimits(turn, tenant, limits, by),
  ),
  'key-limits': needsDiskSpace((turn, { limits }) => setKeyLimits(turn, limits)),
  'reserve-live': (turn, _) => ({ isPartial: reserveLive(turn, RESERVED_PER_STEP) }),
} satisfies Handlers<SessionEvent>;
