/**
 * Job ids that sort in the order they were made: 48 bits of milliseconds, 16 bits that count the ids of that
 * millisecond, 64 bits of chance. The order matters to stores that keep jobs sorted by id: a bulk submit makes
 * thousands of ids in one millisecond, and they are appended at the end instead of inserted all over the last pages.
 */
import type { Random } from './env/env.ts';

const COUNT_VALUES = 0x10000;

export class IdMaker {
  readonly #random: Random;
  #at = -1;
  #prefix = '';
  #count = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  next(now: number): string {
    const at = Math.floor(now);
    // Many ids are made in one millisecond, so its text is cached.
    if (at !== this.#at) {
      this.#at = at;
      this.#prefix = at.toString(16).padStart(12, '0');
      this.#count = 0;
    }
    // The leading 1 keeps the zeros of the count. A count that wraps costs the order of those ids, not their chance.
    const count = (COUNT_VALUES + (this.#count++ % COUNT_VALUES)).toString(16).slice(1);
    return this.#prefix + count + this.#random.hex(8);
  }
}
