import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planSize, type SlotView } from './size-plan.ts';

const up = (n: number): SlotView => ({ n, is: 'up', isCurrent: true });
const down = (n: number): SlotView => ({ n, is: 'down', isCurrent: true });
const ending = (n: number): SlotView => ({ n, is: 'ending', isCurrent: true });
const keep = (count: number) => ({ is: 'keep', count }) as const;
const NOTHING = { start: [], finish: [], kill: [] };

test('what is missing is started under the lowest free numbers', () => {
  assert.deepEqual(planSize([], keep(3), 10), { ...NOTHING, start: [1, 2, 3] });
  assert.deepEqual(planSize([up(2), up(4)], keep(4), 10), { ...NOTHING, start: [1, 3] });
  assert.deepEqual(planSize([up(1), up(2)], keep(2), 10), NOTHING);
});

test('of too many, those that do not run are given up first, then the highest numbers', () => {
  assert.deepEqual(planSize([up(1), up(2), up(3)], keep(1), 10), { ...NOTHING, finish: [3, 2] });
  assert.deepEqual(planSize([down(1), up(2), up(3)], keep(2), 10), { ...NOTHING, finish: [1] });
  assert.deepEqual(planSize([up(1), up(2)], keep(0), 10), { ...NOTHING, finish: [2, 1] });
});

test('one that rests after a failure is not replaced, and one that ends is, under another number', () => {
  assert.deepEqual(planSize([up(1), down(2)], keep(2), 10), NOTHING);
  assert.deepEqual(planSize([up(1), ending(2)], keep(2), 10), { ...NOTHING, start: [3] });
  assert.deepEqual(planSize([ending(1), ending(2)], keep(0), 10), NOTHING);
});

test('there are never more than --max, those included that end', () => {
  assert.deepEqual(planSize([], keep(1_000_000), 2), { ...NOTHING, start: [1, 2] });
  assert.deepEqual(planSize([up(1), ending(2)], keep(2), 2), NOTHING);
});

test('processes of an earlier worker pool of the same name finish, and those of the new one are started', () => {
  const former = { ...up(1), isCurrent: false };
  assert.deepEqual(planSize([former, up(2)], keep(2), 10), { ...NOTHING, start: [3], finish: [1] });
});

test('an evicted worker pool has all of its processes ended at once, those too that finish', () => {
  assert.deepEqual(planSize([up(1), down(2), ending(3)], { is: 'kill' }, 10), {
    ...NOTHING,
    kill: [1, 2, 3],
  });
});
