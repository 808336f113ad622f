/**
 * Who belongs to whom among the jobs that are not terminal: keys, sessions, parents.
 */
import { scoped, uidOf } from '../model/records.ts';
import type { JobEntry } from './entry.ts';

export class Roster {
  readonly #keys = new Map<string, JobEntry>();
  /** The jobs of a session that run one at a time, in order of admission; the first may run. */
  readonly #sessions = new Map<string, JobEntry[]>();
  readonly #children = new Map<string, Set<JobEntry>>();
  /** Everything below a root, however deep, also below jobs that have ended. */
  readonly #descendants = new Map<string, Set<JobEntry>>();

  byKey(tenant: string, key: string): JobEntry | undefined {
    return this.#keys.get(scoped(tenant, key));
  }

  /** The live jobs that a cancel of this one takes along: all below a root, the next ones below any other. */
  below(entry: JobEntry): Iterable<JobEntry> {
    const group = entry.ask.parent === undefined ? this.#descendants : this.#children;
    return group.get(entry.uid) ?? [];
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

  /** Returns the job that must wait now because this one, which runs already, took its place at the head. */
  add(entry: JobEntry): JobEntry | undefined {
    const { ask } = entry;
    if (ask.key !== undefined) this.#keys.set(scoped(ask.tenant, ask.key), entry);
    if (ask.parent !== undefined) join(this.#children, uidOf(ask.tenant, ask.parent), entry);
    if (ask.root !== undefined) join(this.#descendants, uidOf(ask.tenant, ask.root), entry);
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const waiting = this.#sessions.get(session);
    if (!waiting) {
      this.#sessions.set(session, [entry]);
    } else if (entry.rec.state === 'queued') {
      waiting.push(entry);
    } else {
      waiting.unshift(entry);
      return waiting[1];
    }
    return undefined;
  }

  /** Returns the job that may run now because this one left its session. */
  remove(entry: JobEntry): JobEntry | undefined {
    const { ask } = entry;
    if (ask.key !== undefined && this.byKey(ask.tenant, ask.key) === entry) {
      this.#keys.delete(scoped(ask.tenant, ask.key));
    }
    if (ask.parent !== undefined) this.#leaveParent(entry, uidOf(ask.tenant, ask.parent));
    if (ask.root !== undefined) leave(this.#descendants, uidOf(ask.tenant, ask.root), entry);
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const waiting = this.#sessions.get(session) ?? [];
    const at = waiting.indexOf(entry);
    if (at >= 0) waiting.splice(at, 1);
    if (waiting.length === 0) this.#sessions.delete(session);
    return at === 0 ? waiting[0] : undefined;
  }

  /** What is still alive below a job that ends belongs to its parent from then on. */
  #leaveParent(entry: JobEntry, parent: string): void {
    leave(this.#children, parent, entry);
    for (const orphan of this.#children.get(entry.uid) ?? []) join(this.#children, parent, orphan);
  }
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
  return ask.session === undefined || ask.parallel ? undefined : scoped(ask.tenant, ask.session);
}
