/**
 * Who belongs to whom among the jobs that are not terminal: keys, sessions, parents.
 */
import { scoped, uidOf } from '../../model/records.ts';
import type { JobEntry } from './job-entry.ts';

const NOBODY: readonly string[] = [];

export class Roster {
  readonly #keys = new Map<string, JobEntry>();
  /** The jobs of a session that run one at a time, in order of admission; the first may run. */
  readonly #sessions = new Map<string, JobEntry[]>();
  /** All live jobs of a session, also those that run beside the others. */
  readonly #talks = new Map<string, Set<JobEntry>>();
  /** Everything below a job, however deep, also where those between have ended. */
  readonly #below = new Map<string, Set<JobEntry>>();

  byKey(tenant: string, key: string): JobEntry | undefined {
    return this.#keys.get(scoped(tenant, key));
  }

  /** The live jobs of a session. */
  inSession(tenant: string, session: string): Iterable<JobEntry> {
    return this.#talks.get(scoped(tenant, session)) ?? [];
  }

  /** The tokens that they may use. */
  reserved(tenant: string, session: string): number {
    let tokens = 0;
    for (const { ask } of this.inSession(tenant, session)) tokens += ask.tokens ?? 0;
    return tokens;
  }

  /** The live jobs that a cancel of this one takes along. */
  below(uid: string): Iterable<JobEntry> {
    return this.#below.get(uid) ?? [];
  }

  mayRun(entry: JobEntry): boolean {
    const session = sessionOf(entry);
    return session === undefined || this.#sessions.get(session)?.[0] === entry;
  }

  /** The job that a parked job of a session waits for. */
  sessionHead(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    return session === undefined ? undefined : this.#sessions.get(session)?.[0];
  }

  /** Notes the names of a job that lives. */
  add(entry: JobEntry): void {
    const { ask } = entry;
    if (ask.spec.key !== undefined) this.#keys.set(scoped(ask.tenant, ask.spec.key), entry);
    if (ask.spec.session_id !== undefined) join(this.#talks, scoped(ask.tenant, ask.spec.session_id), entry);
    for (const id of ask.ancestors ?? NOBODY) join(this.#below, uidOf(ask.tenant, id), entry);
  }

  /** Takes them back. The session is left apart from this, when nothing of the job runs any more. */
  remove(entry: JobEntry): void {
    const { ask } = entry;
    if (ask.spec.key !== undefined && this.byKey(ask.tenant, ask.spec.key) === entry) {
      this.#keys.delete(scoped(ask.tenant, ask.spec.key));
    }
    if (ask.spec.session_id !== undefined) leave(this.#talks, scoped(ask.tenant, ask.spec.session_id), entry);
    for (const id of ask.ancestors ?? NOBODY) leave(this.#below, uidOf(ask.tenant, id), entry);
  }

  /** Returns the job that must wait now because this one took its place at the head. */
  joinSession(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const waiting = this.#sessions.get(session);
    if (!waiting) {
      this.#sessions.set(session, [entry]);
      return undefined;
    }
    const at = entry.job.state === 'queued' ? placeOf(entry, waiting) : 0;
    waiting.splice(at, 0, entry);
    return at === 0 ? waiting[1] : undefined;
  }

  /** Returns the job that may run now because this one left its session. */
  leaveSession(entry: JobEntry): JobEntry | undefined {
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const waiting = this.#sessions.get(session) ?? [];
    const at = waiting.indexOf(entry);
    if (at >= 0) waiting.splice(at, 1);
    if (waiting.length === 0) this.#sessions.delete(session);
    return at === 0 ? waiting[0] : undefined;
  }
}

/** In order of admission, behind what has begun: a job that is redriven takes the place it had. */
function placeOf(entry: JobEntry, waiting: readonly JobEntry[]): number {
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
