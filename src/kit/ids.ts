/** Job ids that sort by their creation time: 48 bits of milliseconds, then 80 random bits, in hexadecimal. */
import type { Random } from './env/env.ts';

export class IdMaker {
  readonly #random: Random;
  #at = -1;
  #prefix = '';

  constructor(random: Random) {
    this.#random = random;
  }

  next(now: number): string {
    const at = Math.floor(now);
    // Many ids are made in one millisecond, so its text is cached.
    if (at !== this.#at) {
      this.#at = at;
      this.#prefix = at.toString(16).padStart(12, '0');
    }
    return this.#prefix + this.#random.hex(10);
  }
}
