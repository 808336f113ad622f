import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SortedList } from './sorted-list.ts';

const STEPS = fc.array(fc.record({ adds: fc.integer({ min: 0, max: 9 }), value: fc.nat(5000) }), {
  maxLength: 4000,
  size: 'max',
});

test('it is what a sorted array is, with the rank of every item', () => {
  fc.assert(
    fc.property(STEPS, fc.boolean(), (steps, mostlyInOrder) => {
      const list = new SortedList<number>((a, b) => a < b);
      const model: number[] = [];
      for (const [at, { adds, value }] of steps.entries()) {
        // Values in order are added at the end, others anywhere.
        const added = mostlyInOrder && value > 500 ? 10_000 + at : value;
        if (adds > 2 && !model.includes(added)) {
          list.add(added);
          model.push(added);
          model.sort((a, b) => a - b);
        } else if (model.length > 0) {
          const [removed] = model.splice(adds === 0 ? 0 : value % model.length, 1);
          list.remove(removed as number);
        }
        assert.equal(list.size, model.length);
        assert.equal(list.first(), model[0]);
      }
      for (const [rank, item] of model.entries()) assert.equal(list.rankOf(item), rank);
    }),
    { numRuns: 20 },
  );
});
