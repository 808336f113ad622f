/** An archive of sessions in memory; shared by the memory store and by the journal's MemoryHistory (for simulations). */

import { type ArchiveQuery, compareUse, type SessionName } from '../core/ports/sessions.ts';
import { scoped } from '../model/records.ts';
import type { SessionRecord } from '../model/session-record.ts';

export class ArchivedSessions {
  readonly #sessions = new Map<string, SessionRecord>();

  put(records: readonly SessionRecord[]): void {
    for (const record of records) this.#sessions.set(scoped(record.tenant, record.id), record);
  }

  drop(sessions: readonly SessionName[]): void {
    for (const { tenant, id } of sessions) this.#sessions.delete(scoped(tenant, id));
  }

  get(tenant: string, id: string): SessionRecord | undefined {
    return this.#sessions.get(scoped(tenant, id));
  }

  all(): Iterable<SessionRecord> {
    return this.#sessions.values();
  }

  list({ tenant, before, limit }: ArchiveQuery): SessionRecord[] {
    const found = [...this.#sessions.values()].filter(
      (session) => session.tenant === tenant && (!before || compareUse(before, session) < 0),
    );
    return found.sort(compareUse).slice(0, limit);
  }

  oldest(usedBefore: number, limit: number): SessionRecord[] {
    const found = [...this.#sessions.values()].filter(({ usedAt }) => usedAt < usedBefore);
    return found.sort((a, b) => compareUse(b, a)).slice(0, limit);
  }

  isEmpty(): boolean {
    return this.#sessions.size === 0;
  }
}
