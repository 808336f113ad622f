import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MinuteCount } from './minute-count.ts';

test('what came in the last minute counts, and nothing older', () => {
  const count = new MinuteCount();
  const start = 1_700_000_000_000;
  for (let second = 0; second < 100; second++) count.add(1, start + second * 1000);
  assert.equal(count.sum(start + 99_000), 60);
  assert.equal(count.sum(start + 100_000), 59);
  assert.equal(count.sum(start + 158_000), 1);
  assert.equal(count.sum(start + 159_000), 0);
  count.add(5, start + 10_000_000);
  assert.equal(count.sum(start + 10_000_000), 5);
});

test('a clock that is set back forgets nothing and counts nothing twice', () => {
  const count = new MinuteCount();
  count.add(2, 100_000);
  count.add(3, 90_000);
  assert.equal(count.sum(95_000), 5);
  assert.equal(count.sum(161_000), 0);
});
