/**
 * A hash table whose keys are read from bytes: a key that is known already is found without a string being made of it. A
 * recovery looks up the job of every change in the log, and has seen most of these jobs before.
 */

const FIRST_SLOTS = 1024;
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;
const QUOTE = 0x22;
const COLON = 0x3a;

export interface TableEntry {
  /** ASCII. */
  readonly uid: string;
  readonly hash: number;
}

export class UidTable<T extends TableEntry> {
  /** In order of their first occurrence. */
  readonly entries: T[] = [];
  /** The place of an entry in `entries`, plus one; 0 for a free slot. */
  #slots = new Int32Array(FIRST_SLOTS);
  readonly #begin: (uid: string, hash: number) => T;

  constructor(begin: (uid: string, hash: number) => T) {
    this.#begin = begin;
  }

  /** The entry of the key at these bytes, which ends before a quote or a colon; a new one where there is none. */
  at(bytes: Buffer, from: number, end: number): T {
    let hash = FNV_OFFSET;
    let to = from;
    for (; to < end; to++) {
      const byte = bytes[to] as number;
      if (byte === QUOTE || byte === COLON) break;
      hash = Math.imul(hash ^ byte, FNV_PRIME);
    }
    hash ^= hash >>> 15;
    let slot = this.#slotOf(hash);
    for (let place = this.#slots[slot]; place; place = this.#slots[slot]) {
      const entry = this.entries[place - 1] as T;
      if (entry.hash === hash && isAt(entry.uid, bytes, from, to)) return entry;
      slot = this.#after(slot);
    }
    const entry = this.#begin(bytes.toString('latin1', from, to), hash);
    this.#slots[slot] = this.entries.push(entry);
    if (this.entries.length * 2 > this.#slots.length) this.#grow();
    return entry;
  }

  #grow(): void {
    this.#slots = new Int32Array(this.#slots.length * 4);
    for (let place = 1; place <= this.entries.length; place++) {
      let slot = this.#slotOf((this.entries[place - 1] as T).hash);
      while (this.#slots[slot]) slot = this.#after(slot);
      this.#slots[slot] = place;
    }
  }

  /** The number of slots is a power of two. */
  #slotOf(hash: number): number {
    return hash & (this.#slots.length - 1);
  }

  #after(slot: number): number {
    return (slot + 1) & (this.#slots.length - 1);
  }
}

function isAt(uid: string, bytes: Buffer, from: number, to: number): boolean {
  const { length } = uid;
  if (to - from !== length) return false;
  for (let at = 0; at < length; at++) if (uid.charCodeAt(at) !== bytes[from + at]) return false;
  return true;
}
