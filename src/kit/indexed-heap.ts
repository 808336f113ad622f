/**
 * A binary heap in which any item can be removed or moved in O(log n), because each item stores its own position.
 * HeapPosition reads and writes that position on the item; -1 means that the item is not in this heap.
 */
export interface HeapPosition<T> {
  get(item: T): number;
  set(item: T, position: number): void;
}

export class IndexedHeap<T> {
  readonly #items: T[] = [];
  readonly #before: (a: T, b: T) => boolean;
  readonly #position: HeapPosition<T>;

  constructor(before: (a: T, b: T) => boolean, position: HeapPosition<T>) {
    this.#before = before;
    this.#position = position;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  has(item: T): boolean {
    return this.#position.get(item) >= 0;
  }

  /** All items, in no particular order. */
  items(): readonly T[] {
    return this.#items;
  }

  push(item: T): void {
    const at = this.#items.length;
    this.#items.push(item);
    this.#position.set(item, at);
    this.#up(at);
  }

  pop(): T | undefined {
    const top = this.#items[0];
    if (top !== undefined) this.remove(top);
    return top;
  }

  remove(item: T): void {
    const at = this.#position.get(item);
    if (at < 0) return;
    const last = this.#items.pop() as T;
    this.#position.set(item, -1);
    if (last === item) return;
    this.#items[at] = last;
    this.#position.set(last, at);
    this.#down(at);
    this.#up(this.#position.get(last));
  }

  /** Restores the order after an item's rank has changed. */
  update(item: T): void {
    const at = this.#position.get(item);
    if (at < 0) return;
    this.#down(at);
    this.#up(this.#position.get(item));
  }

  #up(from: number): void {
    const items = this.#items;
    let at = from;
    const item = items[at] as T;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = items[parentAt] as T;
      if (!this.#before(item, parent)) break;
      items[at] = parent;
      this.#position.set(parent, at);
      at = parentAt;
    }
    items[at] = item;
    this.#position.set(item, at);
  }

  #down(from: number): void {
    const items = this.#items;
    const end = items.length;
    let at = from;
    const item = items[at] as T;
    for (;;) {
      let childAt = 2 * at + 1;
      if (childAt >= end) break;
      const right = childAt + 1;
      if (right < end && this.#before(items[right] as T, items[childAt] as T)) childAt = right;
      const child = items[childAt] as T;
      if (!this.#before(child, item)) break;
      items[at] = child;
      this.#position.set(child, at);
      at = childAt;
    }
    items[at] = item;
    this.#position.set(item, at);
  }
}
