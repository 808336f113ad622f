import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JOB_ID } from '../model/job-spec.ts';
import { realEnv } from './env/real.ts';
import { IdMaker } from './ids.ts';

const { random } = realEnv();

test('ids have the form of a job id and sort by the time they were made', () => {
  const times = [0, 1, 255, 1_767_225_600_000, 1_767_225_600_001, 2 ** 48 - 1];
  const ids = times.map((time) => new IdMaker(random).next(time));
  for (const id of ids) {
    assert.match(id, new RegExp(JOB_ID));
    assert.equal(id.length, 32);
  }
  assert.deepEqual([...ids].sort(), ids);
});

test('ids of one maker sort in the order they were made, also within one millisecond', () => {
  const maker = new IdMaker(random);
  const ids = [7, 8].flatMap((time) => Array.from({ length: 5000 }, () => maker.next(time)));
  assert.deepEqual([...ids].sort(), ids);
  for (const id of ids) assert.equal(id.length, 32);
});

test('a time with a fraction of a millisecond gives ids of the same form', () => {
  assert.match(new IdMaker(random).next(1_767_225_600_000.25), new RegExp(JOB_ID));
  assert.equal(new IdMaker(random).next(1_767_225_600_000.25).length, 32);
});

test('100,000 ids of one instant are all different', () => {
  const ids = new Set(Array.from({ length: 100_000 }, () => new IdMaker(random).next(5)));
  assert.equal(ids.size, 100_000);
});
