/**
 * Indexes of the live jobs by key, by session and by ancestor. A job is live until its state is terminal.
 */
import { type ReadonlySmallSet, SmallSet } from '../../kit/small-set.ts';
import { scoped, uidOf } from '../../model/records.ts';
import type { JobEntry } from './job-entry.ts';
import { SessionQueue } from './session-queue.ts';

const NO_IDS: readonly string[] = [];
const NO_JOBS: ReadonlySmallSet<JobEntry> = new SmallSet<JobEntry>();

export class Roster {
  readonly #keys = new Map<string, JobEntry>();
  /** The jobs of a session that run one at a time, in order of admission: only the first may run. */
  readonly #sessionQueues = new Map<string, SessionQueue>();
  /** All live jobs of a session, those with `parallel` included. */
  readonly #bySession = new Map<string, SmallSet<JobEntry>>();
  /** The estimated tokens of the live jobs of each session that has some. */
  readonly #reservedTokens = new Map<string, number>();
  /** The live descendants of a job at any depth, even if the jobs between have ended. */
  readonly #descendants = new Map<string, SmallSet<JobEntry>>();

  byKey(tenant: string, key: string): JobEntry | undefined {
    return this.#keys.get(scoped(tenant, key));
  }

  /** The live jobs of a session. */
  inSession(tenant: string, session: string): ReadonlySmallSet<JobEntry> {
    return this.#bySession.get(scoped(tenant, session)) ?? NO_JOBS;
  }

  /** The estimated tokens of the live jobs of a session. */
  reservedTokens(tenant: string, session: string): number {
    return this.#reservedTokens.get(scoped(tenant, session)) ?? 0;
  }

  /** The live descendants of a job: a cancel of the job cancels them too. */
  descendants(uid: string): ReadonlySmallSet<JobEntry> {
    return this.#descendants.get(uid) ?? NO_JOBS;
  }

  /** Whether the session of a job lets it run; true for a job without a session. */
  mayRun(entry: JobEntry): boolean {
    const session = sessionOf(entry);
    return session === undefined || this.#sessionQueues.get(session)?.head === entry;
  }

  /** The job that a parked job of a session waits for. */
  sessionHead(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    return session === undefined ? undefined : this.headOf(session);
  }

  /** The first of the jobs that a session runs one at a time; `session` is the id of its record. */
  headOf(session: string): JobEntry | undefined {
    return this.#sessionQueues.get(session)?.head;
  }

  /** Adds a live job to the indexes; `joinSession` is separate. */
  add(entry: JobEntry): void {
    const { ask } = entry;
    if (ask.spec.key !== undefined) this.#keys.set(scoped(ask.tenant, ask.spec.key), entry);
    if (ask.spec.session_id !== undefined) {
      const session = scoped(ask.tenant, ask.spec.session_id);
      if (join(this.#bySession, session, entry)) this.#reserve(session, ask.tokens ?? 0);
    }
    for (const id of ask.ancestors ?? NO_IDS) join(this.#descendants, uidOf(ask.tenant, id), entry);
  }

  /** Removes a job that has ended. `leaveSession` is separate: the job's last attempt may still be running. */
  remove(entry: JobEntry): void {
    const { ask } = entry;
    if (ask.spec.key !== undefined && this.byKey(ask.tenant, ask.spec.key) === entry) {
      this.#keys.delete(scoped(ask.tenant, ask.spec.key));
    }
    if (ask.spec.session_id !== undefined) {
      const session = scoped(ask.tenant, ask.spec.session_id);
      if (leave(this.#bySession, session, entry)) this.#reserve(session, -(ask.tokens ?? 0));
    }
    for (const id of ask.ancestors ?? NO_IDS) leave(this.#descendants, uidOf(ask.tenant, id), entry);
  }

  /** Queues a job in its session. Returns the job that must wait now because this one has become the head. */
  joinSession(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const queue = this.#sessionQueues.get(session) ?? new SessionQueue();
    this.#sessionQueues.set(session, queue);
    const former = queue.head;
    queue.add(entry);
    return queue.head === entry ? former : undefined;
  }

  /** Returns the job that may run now because this one left its session. */
  leaveSession(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    const queue = session === undefined ? undefined : this.#sessionQueues.get(session);
    if (session === undefined || !queue) return undefined;
    const wasHead = queue.delete(entry);
    if (queue.size === 0) this.#sessionQueues.delete(session);
    return wasHead ? queue.head : undefined;
  }

  #reserve(session: string, tokens: number): void {
    const sum = (this.#reservedTokens.get(session) ?? 0) + tokens;
    if (sum === 0) this.#reservedTokens.delete(session);
    else this.#reservedTokens.set(session, sum);
  }
}

/** Returns whether the job was not in the group before. */
function join(groups: Map<string, SmallSet<JobEntry>>, id: string, entry: JobEntry): boolean {
  const group = groups.get(id);
  if (group?.has(entry)) return false;
  if (group) group.add(entry);
  else groups.set(id, new SmallSet(entry));
  return true;
}

/** Returns whether the job was in the group. */
function leave(groups: Map<string, SmallSet<JobEntry>>, id: string, entry: JobEntry): boolean {
  const group = groups.get(id);
  const wasThere = group?.delete(entry) ?? false;
  if (group?.size === 0) groups.delete(id);
  return wasThere;
}

function sessionOf(entry: JobEntry): string | undefined {
  const { ask } = entry;
  return ask.spec.session_id === undefined || ask.spec.parallel
    ? undefined
    : scoped(ask.tenant, ask.spec.session_id);
}
