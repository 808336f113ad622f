/** The archived sessions that a log still tells: those that left memory for the archive and did not come back. */

import type { SessionName } from '../../../core/ports/sessions.ts';
import type { Change } from '../../../model/records.ts';
import { type SessionRecord, sessionName } from '../../../model/session-record.ts';

export class RebuiltSessions {
  /** The last record of each session, by its id in the log. */
  readonly #last = new Map<string, SessionRecord>();
  readonly #archived = new Map<string, SessionRecord>();
  /** Sessions that were deleted, and did not come back. */
  readonly #deleted = new Set<string>();

  /** Takes the changes of a log in their order. */
  change(change: Change): void {
    if (change.kind !== 'session') return;
    const { id, after, cause } = change;
    const last = this.#last.get(id);
    this.#archived.delete(id);
    this.#deleted.delete(id);
    if (after) this.#last.set(id, after);
    else if (cause !== 'archived') this.#deleted.add(id);
    else if (last) this.#archived.set(id, last);
  }

  get archived(): SessionRecord[] {
    return [...this.#archived.values()];
  }

  get deleted(): SessionName[] {
    return Array.from(this.#deleted, sessionName);
  }
}
