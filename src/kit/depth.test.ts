import assert from 'node:assert/strict';
import { test } from 'node:test';
import { excessOf, MAX_DEPTH, MAX_VALUES } from './depth.ts';

function nested(levels: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 0;
  for (let level = 0; level < levels; level++) value = wrap(value);
  return value;
}

test('a value nested to the bound passes, one level more does not, and no depth overflows the stack', () => {
  for (const wrap of [(inner: unknown) => [inner], (inner: unknown) => ({ a: 1, inner })]) {
    assert.equal(excessOf(nested(MAX_DEPTH + 1, wrap)), undefined);
    assert.equal(excessOf(nested(MAX_DEPTH + 2, wrap)), 'too deep');
    assert.equal(excessOf(nested(1_000_000, wrap)), 'too deep');
  }
  for (const flat of [null, undefined, 'x', 1, [], {}, [1, [2]]]) assert.equal(excessOf(flat), undefined);
});

test('the bound on the number of values counts them wherever they are nested', () => {
  const half = Array.from({ length: MAX_VALUES / 2 - 2 }, () => []);
  assert.equal(excessOf({ a: half, b: [...half, 1] }), undefined);
  assert.equal(excessOf({ a: half, b: [...half, 1, 2] }), 'too many');
});
