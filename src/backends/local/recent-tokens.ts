/**
 * A set that remembers at least the last `count` tokens that were added, and at most twice as many. Two halves take
 * turns, because removing the oldest entry of one large set for each new one would look past all removed before it.
 */
export class RecentTokens {
  readonly #count: number;
  #newer = new Set<string>();
  #older = new Set<string>();

  constructor(count: number) {
    this.#count = count;
  }

  add(token: string): void {
    this.#newer.add(token);
    if (this.#newer.size < this.#count) return;
    this.#older = this.#newer;
    this.#newer = new Set();
  }

  has(token: string): boolean {
    return this.#newer.has(token) || this.#older.has(token);
  }
}
