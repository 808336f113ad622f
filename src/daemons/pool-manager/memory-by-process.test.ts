import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryByWorker } from './memory-by-process.ts';

/** Two workers: 10 with a shell 11, a server 12 and its child 13; and 20. 30 is of somebody else. */
const PARENTS: Readonly<Record<number, number>> = { 1: 0, 10: 1, 11: 10, 12: 11, 13: 12, 20: 1, 30: 1 };
const LEADERS = new Map([
  [10, 'a'],
  [20, 'b'],
]);

const measured = (...listed: [pid: number, usedBytes: number][]): Record<string, number> | undefined => {
  const processes = listed.map(([pid, usedBytes]) => ({ pid, usedBytes }));
  const sums = memoryByWorker(processes, LEADERS, (pid) => PARENTS[pid]);
  return sums && Object.fromEntries(sums);
};

test('a worker has what its process and all descendants have, and nothing of others', () => {
  assert.deepEqual(measured([10, 1], [12, 40], [13, 2], [20, 7], [30, 99]), { a: 43, b: 7 });
  assert.deepEqual(measured([12, 40], [12, 5]), { a: 45 }, 'a process on two devices is listed twice');
  assert.deepEqual(measured([30, 99]), {});
  assert.deepEqual(measured(), {});
});

test('a list with a process that does not exist here is of another numbering, and says nothing', () => {
  assert.equal(measured([10, 5], [4242, 40]), undefined);
});

test('processes that come to be their own ancestors while they are looked up end the search', () => {
  assert.deepEqual(
    [...memoryByWorker([{ pid: 5, usedBytes: 1 }], LEADERS, (pid) => (pid === 5 ? 6 : 5))!],
    [],
  );
});
