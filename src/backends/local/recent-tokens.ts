/**
 * A set that keeps at least the last `count` tokens added, and at most twice as many. It is two sets that replace each
 * other: removing the oldest entry of one large set for each new entry would scan past all entries removed before.
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
