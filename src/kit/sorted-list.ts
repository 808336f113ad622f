/**
 * A sorted list that knows the rank of each item. It is kept in chunks, so that adding and removing moves few items, and
 * a rank is the sum of the lengths of the chunks before. Adding at the end and removing from the front, which is what a
 * queue mostly does, take constant time.
 */

/** A longer chunk is cut in two. */
const MAX_CHUNK = 512;

export class SortedList<T> {
  readonly #before: (a: T, b: T) => boolean;
  /** No chunk is empty. */
  readonly #chunks: T[][] = [];
  #size = 0;

  /** `before` must order any two different items. */
  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#size;
  }

  first(): T | undefined {
    return this.#chunks[0]?.[0];
  }

  add(item: T): void {
    this.#size++;
    const last = this.#chunks.at(-1);
    if (!last || this.#isAfter(item, last)) {
      if (last && last.length < MAX_CHUNK) last.push(item);
      else this.#chunks.push([item]);
      return;
    }
    const at = this.#chunkOf(item);
    const chunk = this.#chunks[at] as T[];
    chunk.splice(this.#indexIn(chunk, item), 0, item);
    if (chunk.length > MAX_CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(MAX_CHUNK / 2));
  }

  /** The item must be in the list. */
  remove(item: T): void {
    this.#size--;
    const at = this.first() === item ? 0 : this.#chunkOf(item);
    const chunk = this.#chunks[at] as T[];
    if (chunk[0] === item) chunk.shift();
    else chunk.splice(this.#indexIn(chunk, item), 1);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
  }

  /** How many items go before this one, which must be in the list. */
  rankOf(item: T): number {
    const chunks = this.#chunks;
    const last = chunks.at(-1) as T[];
    if (last[last.length - 1] === item) return this.#size - 1;
    const at = this.#chunkOf(item);
    return this.#itemsBefore(at) + this.#indexIn(chunks[at] as T[], item);
  }

  /** The number of items before a chunk: counted from the nearer end, which is the last one for new jobs of a queue. */
  #itemsBefore(at: number): number {
    const chunks = this.#chunks;
    let before = 0;
    if (at < chunks.length / 2) {
      for (let each = 0; each < at; each++) before += (chunks[each] as T[]).length;
      return before;
    }
    before = this.#size;
    for (let each = at; each < chunks.length; each++) before -= (chunks[each] as T[]).length;
    return before;
  }

  #isAfter(item: T, chunk: readonly T[]): boolean {
    return this.#before(chunk[chunk.length - 1] as T, item);
  }

  /** The index of the first chunk that does not end before the item. */
  #chunkOf(item: T): number {
    let from = 0;
    let to = this.#chunks.length - 1;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#isAfter(item, this.#chunks[middle] as T[])) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** The number of items of the chunk that go before the item. */
  #indexIn(chunk: readonly T[], item: T): number {
    let from = 0;
    let to = chunk.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#before(chunk[middle] as T, item)) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
