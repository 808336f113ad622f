import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { IndexedHeap } from './indexed-heap.ts';

interface Item {
  rank: number;
  readonly order: number;
  place: number;
}

const POSITION = {
  get: (item: Item) => item.place,
  set: (item: Item, place: number) => {
    item.place = place;
  },
};

const before = (a: Item, b: Item): boolean => (a.rank === b.rank ? a.order < b.order : a.rank < b.rank);

const COMMANDS = fc.array(
  fc.record({
    op: fc.constantFrom('push', 'push', 'pop', 'remove', 'update'),
    rank: fc.integer({ min: 0, max: 100 }),
    pick: fc.nat(),
  }),
  { maxLength: 200, size: 'max' },
);

test('the heap pops the same item as a sorted list after any pushes, pops, removals and rank changes', () => {
  fc.assert(
    fc.property(COMMANDS, (commands) => {
      const heap = new IndexedHeap<Item>(before, POSITION);
      let list: Item[] = [];
      const sorted = (): Item[] => list.sort((a, b) => (before(a, b) ? -1 : 1));
      for (const [order, { op, rank, pick }] of commands.entries()) {
        const item = list[pick % Math.max(1, list.length)];
        if (op === 'push') {
          const made = { rank, order, place: -1 };
          heap.push(made);
          list.push(made);
        } else if (op === 'pop') {
          assert.equal(heap.pop(), sorted().shift());
        } else if (item && op === 'remove') {
          heap.remove(item);
          list = list.filter((other) => other !== item);
          assert.equal(heap.has(item), false);
        } else if (item) {
          item.rank = rank;
          heap.update(item);
        }
        assert.equal(heap.size, list.length);
        assert.equal(heap.peek(), sorted()[0]);
        for (const [place, each] of heap.items().entries()) assert.equal(each.place, place);
      }
      assert.deepEqual(drain(heap), sorted());
    }),
  );
});

test('removing or updating an item that is not in the heap changes nothing', () => {
  const heap = new IndexedHeap<Item>(before, POSITION);
  const [inside, outside] = [1, 2].map((order) => ({ rank: 1, order, place: -1 })) as [Item, Item];
  heap.push(inside);
  heap.remove(outside);
  heap.update(outside);
  assert.deepEqual(drain(heap), [inside]);
  assert.equal(heap.pop(), undefined);
});

function drain(heap: IndexedHeap<Item>): Item[] {
  const items: Item[] = [];
  for (let item = heap.pop(); item; item = heap.pop()) items.push(item);
  return items;
}
