/**
 * Sessions that were idle for long leave memory for the archive of the store, and come back when they are used.
 *
 * A1  A session leaves memory only as the record that the archive has: one that has changed since stays.
 * A2  Whoever looked into the archive says when. If sessions have left memory since, for the archive or for good, what was
 *     found may be out of date: the command is refused, and its sender looks again. The jobs below a waiting job are
 *     admitted nevertheless, unless it is their own session that has left.
 */
import { OrchdError } from '../../model/errors.ts';
import { scoped } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { SessionLookup } from '../ports/new-job.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { State } from '../state/state.ts';
import type { Turn } from '../turn.ts';
import { forgetSpent } from './quota.ts';

/** Beyond this number sessions leave memory before their time, those of the tenant that has the most first. */
export const MAX_SESSIONS = 100_000;
/** A new session is refused when so many are in memory: the archive does not take them, or all of them have live jobs. */
const MOST_SESSIONS = 2 * MAX_SESSIONS;

/**
 * The session in memory or, if it is not there, in the archive, as the sender of a command has found it; undefined if there
 * is none. Throws STORE_BUSY if that may be out of date (A2).
 */
export function findSession(
  { state }: Pick<Turn, 'state'>,
  tenant: string,
  id: string,
  lookup: SessionLookup | undefined,
): SessionRecord | undefined {
  const known = state.sessionOf(tenant, id);
  if (known || !lookup) return known;
  if (lookup.left !== state.sessions.left)
    throw new OrchdError('STORE_BUSY', 'the session has just left memory; try again');
  return lookup.archived;
}

/** Throws if there are so many sessions in memory that no other one may come into it. */
export function checkRoom({ state }: Pick<Turn, 'state'>): void {
  if (state.sessions.size < MOST_SESSIONS) return;
  throw new OrchdError('ADMISSION_REJECT', `${MOST_SESSIONS} sessions are in use`, {
    reason: 'too_many_sessions',
  });
}

/** Puts an archived session into memory, as it was but for the instant of its use. */
export function restoreSession(turn: Turn, archived: SessionRecord): SessionRecord {
  const after = { ...archived, usedAt: turn.now };
  turn.put('session', scoped(after.tenant, after.id), after, 'restored');
  return after;
}

/** Finds the sessions that may leave memory. It goes through the table in portions, so that a call takes a bounded time. */
export class IdleSessions {
  readonly #state: State;
  /** Where the next call goes on; undefined: with the least recently used session. */
  #next: IterableIterator<SessionRecord> | undefined;

  constructor(state: State) {
    this.#state = state;
  }

  /** Up to `limit` sessions that were last used before `usedBefore`, or that are too many; looks at `looks` sessions. */
  take(usedBefore: number, limit: number, looks: number): SessionRecord[] {
    const { sessions } = this.#state;
    const isBusy = busySessions(this.#state);
    const found = new Set<SessionRecord>();
    this.#next ??= sessions.values();
    for (let looked = 0; looked < looks && found.size < limit; looked++) {
      const { value, done } = this.#next.next();
      // Sessions are in the order of their last change: those behind this one were changed later.
      if (done || value.usedAt >= usedBefore) {
        this.#next = undefined;
        break;
      }
      if (!isBusy(value)) found.add(value);
    }
    const tooMany = Math.min(sessions.size - MAX_SESSIONS, limit);
    if (found.size < tooMany)
      for (const id of sessions.leastUsed(looks)) {
        const record = sessions.get(id);
        if (record && !isBusy(record)) found.add(record);
        if (found.size >= tooMany) break;
      }
    return [...found];
  }
}

/** Tells sessions that have a job that has not ended, or an attempt whose tokens are still to be counted. */
function busySessions({ open, roster }: State): (session: SessionRecord) => boolean {
  let withAttempt: Set<string> | undefined;
  return ({ tenant, id }) => {
    // Made for the first session alone: mostly there is none to ask about.
    withAttempt ??= new Set(Array.from(open.values(), sessionOfJob));
    return roster.inSession(tenant, id).size > 0 || withAttempt.has(scoped(tenant, id));
  };
}

const sessionOfJob = ({ ask }: JobEntry): string =>
  ask.spec.session_id === undefined ? '' : scoped(ask.tenant, ask.spec.session_id);

/** The archive has these records: takes those out of memory that are unchanged and idle (A1). Returns how many. */
export function archiveSessions(turn: Turn, records: readonly SessionRecord[]): number {
  const isBusy = busySessions(turn.state);
  let archived = 0;
  for (const record of records) {
    if (turn.state.sessionOf(record.tenant, record.id) !== record || isBusy(record)) continue;
    // What the session has spent of its limits stays: its budget must not begin anew when it comes back.
    turn.put('session', scoped(record.tenant, record.id), null, 'archived');
    archived++;
  }
  return archived;
}

/** These archived sessions have reached the end of their retention: what they have spent is forgotten, unless they are in use. */
export function expireArchived(turn: Turn, sessions: readonly Pick<SessionRecord, 'tenant' | 'id'>[]): void {
  for (const { tenant, id } of sessions) {
    if (turn.state.sessionOf(tenant, id)) continue;
    // The change is in the log for an archive that is made again from it.
    turn.put('session', scoped(tenant, id), null, 'expired');
    forgetSpent(turn, tenant, id);
  }
}

/** Restores the session of a job that is redriven, so that the tokens of its new tries are counted. */
export function restoreFor(
  turn: Turn,
  { ask }: Pick<JobEntry, 'ask'>,
  lookup: SessionLookup | undefined,
): void {
  const id = ask.spec.session_id;
  if (id === undefined || turn.state.sessionOf(ask.tenant, id)) return;
  if (lookup?.archived && lookup.left === turn.state.sessions.left) restoreSession(turn, lookup.archived);
}
