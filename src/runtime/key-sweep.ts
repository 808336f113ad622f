/**
 * Drops the keys that nothing needs any more: sessions that nobody has deleted leave memory by themselves, and their jobs
 * leave the history. A key stays while there is a record of its session, in memory or archived, or a job of it in memory
 * or in the history.
 */
import type { KeyOwner } from '../core/ports/keys.ts';
import type { Store } from '../core/ports/store.ts';
import type { Bodies } from './bodies.ts';
import type { Loop } from './loop.ts';

/** Keys that one run looks at; the next run goes on behind them. */
const KEYS_PER_RUN = 1000;

export class KeySweep {
  readonly #loop: Loop;
  readonly #store: Store;
  readonly #bodies: Bodies;
  #next = 0;

  constructor(loop: Loop, store: Store, bodies: Bodies) {
    this.#loop = loop;
    this.#store = store;
    this.#bodies = bodies;
  }

  async run(): Promise<void> {
    const { owners, next = 0 } = await this.#store.keys.owners(this.#next, KEYS_PER_RUN);
    this.#next = next;
    for (const owner of owners) {
      if (this.#loop.failure) return;
      if (this.#isInMemory(owner) || (await this.#isStored(owner))) continue;
      // A job that was sealed with it may be about to be admitted.
      if (this.#bodies.seals.isInUse(owner)) continue;
      // The engine decides: the session may have begun anew since.
      await this.#loop.ask({ type: 'erase-unused', tenant: owner.tenant, id: owner.session });
    }
  }

  #isInMemory({ tenant, session }: KeyOwner): boolean {
    const { state } = this.#loop.engine;
    return state.sessionOf(tenant, session) !== undefined || state.roster.inSession(tenant, session).size > 0;
  }

  /** Whether the session is archived, or has a job in the history. */
  async #isStored({ tenant, session }: KeyOwner): Promise<boolean> {
    if (await this.#store.sessions.get(tenant, session)) return true;
    return (await this.#store.history.list({ tenant, session, limit: 1 })).length > 0;
  }
}
