/**
 * A set for places with very many sets, most of which have one item at most: only one with more items uses a Set, which
 * takes about 200 bytes even while it is empty. Items keep the order in which they were added.
 */
export class SmallSet<T extends object> {
  #items: T | Set<T> | undefined;

  constructor(item?: T) {
    this.#items = item;
  }

  get size(): number {
    if (this.#items === undefined) return 0;
    return this.#items instanceof Set ? this.#items.size : 1;
  }

  get first(): T | undefined {
    return this.#items instanceof Set ? this.#items.values().next().value : this.#items;
  }

  has(item: T): boolean {
    return this.#items instanceof Set ? this.#items.has(item) : this.#items === item;
  }

  add(item: T): void {
    if (this.#items instanceof Set) this.#items.add(item);
    else if (this.#items === undefined) this.#items = item;
    else if (this.#items !== item) this.#items = new Set([this.#items, item]);
  }

  /** Returns whether the item was there. */
  delete(item: T): boolean {
    if (this.#items instanceof Set) return this.#items.delete(item);
    const wasThere = this.#items === item;
    if (wasThere) this.#items = undefined;
    return wasThere;
  }

  *[Symbol.iterator](): Generator<T> {
    if (this.#items instanceof Set) yield* this.#items;
    else if (this.#items !== undefined) yield this.#items;
  }
}

export type ReadonlySmallSet<T extends object> = Omit<SmallSet<T>, 'add' | 'delete'>;
