import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SmallSet } from './small-set.ts';

test('a small set behaves like a Set, with none, one and many items', () => {
  const items = Array.from({ length: 4 }, (_, at) => ({ at }));
  const command = fc.record({ adds: fc.boolean(), at: fc.integer({ min: 0, max: items.length - 1 }) });
  fc.assert(
    fc.property(fc.array(command, { maxLength: 30 }), (commands) => {
      const set = new Set<object>();
      const small = new SmallSet<object>();
      for (const { adds, at } of commands) {
        const item = items[at] as object;
        if (adds) {
          set.add(item);
          small.add(item);
        } else assert.equal(small.delete(item), set.delete(item));
        assert.deepEqual([...small], [...set]);
        assert.equal(small.size, set.size);
        assert.equal(small.first, [...set][0]);
        for (const each of items) assert.equal(small.has(each), set.has(each));
      }
    }),
  );
});

test('a small set may begin with one item', () => {
  const item = {};
  assert.deepEqual([...new SmallSet(item)], [item]);
});
