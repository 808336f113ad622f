import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StartRate } from './start-rate.ts';

test('retryAfterMs is the mean time between starts, within bounds', () => {
  const drain = new StartRate();
  assert.equal(drain.retryAfterMs(0), undefined);
  drain.started(0);
  assert.equal(drain.retryAfterMs(100), undefined, 'one start does not make a rate');
  for (let at = 200; at <= 2000; at += 200) drain.started(at);
  assert.equal(drain.retryAfterMs(2200), 200);
  assert.equal(drain.retryAfterMs(10_000_000), 60_000);
  const fast = new StartRate();
  for (let i = 0; i < 100; i++) fast.started(5);
  assert.equal(fast.retryAfterMs(5), 10);
});

test('old starts are forgotten', () => {
  const drain = new StartRate();
  drain.started(0);
  for (let at = 1_000_000; at < 1_000_064; at++) drain.started(at);
  assert.ok(drain.retryAfterMs(1_000_064)! < 100);
});
