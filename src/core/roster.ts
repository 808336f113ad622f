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

  byKey(tenant: string, key: string): JobEntry | undefined {
    return this.#keys.get(scoped(tenant, key));
  }

  childrenOf(uid: string): Iterable<JobEntry> {
    return this.#children.get(uid) ?? [];
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
    if (ask.parent !== undefined) {
      const parent = uidOf(ask.tenant, ask.parent);
      const siblings = this.#children.get(parent);
      if (siblings) siblings.add(entry);
      else this.#children.set(parent, new Set([entry]));
    }
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
    const session = sessionOf(entry);
    if (session === undefined) return undefined;
    const waiting = this.#sessions.get(session) ?? [];
    const at = waiting.indexOf(entry);
    if (at >= 0) waiting.splice(at, 1);
    if (waiting.length === 0) this.#sessions.delete(session);
    return at === 0 ? waiting[0] : undefined;
  }

  #leaveParent(entry: JobEntry, parent: string): void {
    const siblings = this.#children.get(parent);
    siblings?.delete(entry);
    if (siblings?.size === 0) this.#children.delete(parent);
  }
}

function sessionOf(entry: JobEntry): string | undefined {
  const { ask } = entry;
  return ask.session === undefined || ask.parallel ? undefined : scoped(ask.tenant, ask.session);
}
