/**
 * Indexes of the live jobs by key, by session and by ancestor. A job is live until its state is terminal.
 */
import { scoped, uidOf } from '../../model/records.ts';
import type { JobEntry } from './job-entry.ts';

const NO_IDS: readonly string[] = [];

export class Roster {
  readonly #keys = new Map<string, JobEntry>();
  /** The jobs of a session that run one at a time, in order of admission: only the first may run. */
  readonly #sessionQueues = new Map<string, JobEntry[]>();
  /** All live jobs of a session, those with `parallel` included. */
  readonly #bySession = new Map<string, Set<JobEntry>>();
  /** The live descendants of a job at any depth, even if the jobs between have ended. */
  readonly #descendants = new Map<string, Set<JobEntry>>();

  byKey(tenant: string, key: string): JobEntry | undefined {
    return this.#keys.get(scoped(tenant, key));
  }

  /** The live jobs of a session. */
  inSession(tenant: string, session: string): Iterable<JobEntry> {
    return this.#bySession.get(scoped(tenant, session)) ?? [];
  }

  /** The estimated tokens of the live jobs of a session. */
  reservedTokens(tenant: string, session: string): number {
    let tokens = 0;
    for (const { ask } of this.inSession(tenant, session)) tokens += ask.tokens ?? 0;
    return tokens;
  }

  /** The live descendants of a job: a cancel of the job cancels them too. */
  descendants(uid: string): Iterable<JobEntry> {
    return this.#descendants.get(uid) ?? [];
  }

  /** Whether the session of a job lets it run; true for a job without a session. */
  mayRun(entry: JobEntry): boolean {
    const session = sessionOf(entry);
    return session === undefined || this.#sessionQueues.get(session)?.[0] === entry;
  }

  /** The job that a parked job of a session waits for. */
  sessionHead(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    return session === undefined ? undefined : this.#sessionQueues.get(session)?.[0];
  }

  /** Adds a live job to the indexes; `joinSession` is separate. */
  add(entry: JobEntry): void {
    const { ask } = entry;
    if (ask.spec.key !== undefined) this.#keys.set(scoped(ask.tenant, ask.spec.key), entry);
    if (ask.spec.session_id !== undefined)
      join(this.#bySession, scoped(ask.tenant, ask.spec.session_id), entry);
    for (const id of ask.ancestors ?? NO_IDS) join(this.#descendants, uidOf(ask.tenant, id), entry);
  }

  /** Removes a job that has ended. `leaveSession` is separate: the job's last attempt may still be running. */
  remove(entry: JobEntry): void {
    const { ask } = entry;
    if (ask.spec.key !== undefined && this.byKey(ask.tenant, ask.spec.key) === entry) {
      this.#keys.delete(scoped(ask.tenant, ask.spec.key));
    }
    if (ask.spec.session_id !== undefined)
      leave(this.#bySession, scoped(ask.tenant, ask.spec.session_id), entry);
    for (const id of ask.ancestors ?? NO_IDS) leave(this.#descendants, uidOf(ask.tenant, id), entry);
  }

  /** Queues a job in its session. Returns the job that must wait now because this one has become the head. */
  joinSession(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const waiting = this.#sessionQueues.get(session);
    if (!waiting) {
      this.#sessionQueues.set(session, [entry]);
      return undefined;
    }
    const at = entry.job.state === 'queued' ? indexFor(entry, waiting) : 0;
    waiting.splice(at, 0, entry);
    return at === 0 ? waiting[1] : undefined;
  }

  /** Returns the job that may run now because this one left its session. */
  leaveSession(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const waiting = this.#sessionQueues.get(session) ?? [];
    const at = waiting.indexOf(entry);
    if (at >= 0) waiting.splice(at, 1);
    if (waiting.length === 0) this.#sessionQueues.delete(session);
    return at === 0 ? waiting[0] : undefined;
  }
}

/** The index that keeps `waiting` in order of admission, behind jobs that have begun: a redriven job regains its place. */
function indexFor(entry: JobEntry, waiting: readonly JobEntry[]): number {
  let at = waiting.length;
  for (; at > 0; at--) {
    const before = waiting[at - 1] as JobEntry;
    if (before.job.state !== 'queued' || before.ask.n < entry.ask.n) break;
  }
  return at;
}

function join(groups: Map<string, Set<JobEntry>>, id: string, entry: JobEntry): void {
  const group = groups.get(id);
  if (group) group.add(entry);
  else groups.set(id, new Set([entry]));
}

function leave(groups: Map<string, Set<JobEntry>>, id: string, entry: JobEntry): void {
  const group = groups.get(id);
  group?.delete(entry);
  if (group?.size === 0) groups.delete(id);
}

function sessionOf(entry: JobEntry): string | undefined {
  const { ask } = entry;
  return ask.spec.session_id === undefined || ask.spec.parallel
    ? undefined
    : scoped(ask.tenant, ask.spec.session_id);
}
