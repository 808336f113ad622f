import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTooDeep, MAX_DEPTH } from './depth.ts';

function nested(levels: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 0;
  for (let level = 0; level < levels; level++) value = wrap(value);
  return value;
}

test('values nested to the bound pass, one level more does not, and no depth harms the stack', () => {
  for (const wrap of [(inner: unknown) => [inner], (inner: unknown) => ({ a: 1, inner })]) {
    assert.equal(isTooDeep(nested(MAX_DEPTH + 1, wrap)), false);
    assert.equal(isTooDeep(nested(MAX_DEPTH + 2, wrap)), true);
    assert.equal(isTooDeep(nested(1_000_000, wrap)), true);
  }
  for (const flat of [null, undefined, 'x', 1, [], {}, [1, [2]]]) assert.equal(isTooDeep(flat), false);
});
