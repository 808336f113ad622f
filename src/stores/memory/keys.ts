/** The keys of sessions of the store in memory. */
import { createHash } from 'node:crypto';
import type { KeyOwner, KeyOwners, SessionKey, SessionKeys } from '../../core/ports/keys.ts';
import type { SealKey } from '../../kit/seal.ts';
import { scoped } from '../../model/records.ts';

const nameOf = ({ tenant, session }: KeyOwner): string => scoped(tenant, session);

/** The stored keys. */
export class KeyMedium {
  readonly keys = new Map<string, SessionKey>();
  /** Number of keys made so far. */
  made = 0;
}

export class MemoryKeys implements SessionKeys {
  readonly #medium: KeyMedium;
  readonly #assertNotFenced: () => void;

  constructor(medium: KeyMedium, assertNotFenced: () => void) {
    this.#medium = medium;
    this.#assertNotFenced = assertNotFenced;
  }

  /** Keys are unique and not secret: the medium holds them beside the bodies, and both end with the process. */
  async obtain(owner: KeyOwner): Promise<SealKey> {
    this.#assertNotFenced();
    const { keys } = this.#medium;
    const known = keys.get(nameOf(owner));
    if (known) return known;
    const n = ++this.#medium.made;
    const key = { id: `memory-${n}`, key: createHash('sha256').update(`key ${n}`).digest(), ...owner };
    keys.set(nameOf(owner), key);
    return key;
  }

  async find(id: string): Promise<Buffer | undefined> {
    for (const { id: other, key } of this.#medium.keys.values()) if (other === id) return key;
    return undefined;
  }

  async drop(owner: KeyOwner): Promise<void> {
    this.#assertNotFenced();
    this.#medium.keys.delete(nameOf(owner));
  }

  async owners(after: number, limit: number): Promise<KeyOwners> {
    const all = [...this.#medium.keys.values()];
    const owners = all.slice(after, after + limit).map(({ tenant, session }) => ({ tenant, session }));
    return { owners, next: after + limit < all.length ? after + limit : undefined };
  }
}
