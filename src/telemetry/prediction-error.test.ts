import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PredictionError } from './prediction-error.ts';

test('the error is relative to the real wait, and a short wait counts for 50 ms', () => {
  const error = new PredictionError();
  assert.equal(error.median, undefined);
  assert.equal(error.lateShare, undefined);
  error.note(1500, 1000);
  assert.equal(error.median, 0.5);
  error.note(20, 10);
  assert.equal(error.quantile(0), 0.2);
  error.note(0, 100);
  assert.deepEqual([error.quantile(0), error.median, error.quantile(1)], [0.2, 0.5, 1]);
  assert.equal(error.lateShare, 1 / 3);
});

test('only the last ones count, and what is no number is not noted', () => {
  const error = new PredictionError();
  for (let n = 0; n < 1000; n++) error.note(0, 100);
  for (let n = 0; n < 512; n++) error.note(100, 100);
  error.note(Number.NaN, 100);
  assert.deepEqual([error.count, error.quantile(1)], [1512, 0]);
});
