import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Bucket } from './bucket.ts';

test('[NEWS-9] waitMs is exact: one millisecond earlier is too early', () => {
  const numbers = fc.record({
    rate: fc.integer({ min: 1, max: 5000 }),
    burst: fc.integer({ min: 1, max: 10_000 }),
    taken: fc.integer({ min: 0, max: 20_000 }),
    amount: fc.integer({ min: 0, max: 20_000 }),
    start: fc.integer({ min: 0, max: 2 ** 41 }),
  });
  fc.assert(
    fc.property(numbers, ({ rate, burst, taken, amount, start }) => {
      const bucket = new Bucket(rate, burst, start);
      bucket.take(taken);
      const wait = bucket.waitMs(amount);
      if (wait === 0) return;
      bucket.refill(start + wait - 1);
      assert.equal(bucket.waitMs(amount), 1);
      bucket.refill(start + wait);
      assert.equal(bucket.waitMs(amount), 0);
    }),
  );
});

test('many small refills add up to one large refill, and a clock that steps back adds nothing', () => {
  const small = new Bucket(7, 1000, 0);
  const once = new Bucket(7, 1000, 0);
  small.take(900);
  once.take(900);
  for (let now = 1; now <= 60_000; now++) small.refill(now);
  once.refill(60_000);
  once.refill(30_000);
  assert.ok(Math.abs(small.level - once.level) < 1e-6);
  assert.ok(Math.abs(once.level - 520) < 1e-9);
});

test('B1: a request larger than the bucket waits until it is full and leaves a debt', () => {
  const bucket = new Bucket(10, 100, 0);
  bucket.take(1);
  assert.equal(bucket.waitMs(500), 100);
  bucket.refill(100);
  assert.equal(bucket.waitMs(500), 0);
  bucket.take(500);
  assert.equal(bucket.level, -400);
  assert.equal(bucket.waitMs(0), 40_000);
});

test('[NEWS-9] a bucket with a burst of 0 grants nothing, and one with a rate of 0 grants its burst once', () => {
  assert.equal(new Bucket(10, 0, 0).waitMs(1), Number.POSITIVE_INFINITY);
  const once = new Bucket(0, 2, 0);
  assert.equal(once.waitMs(2), 0);
  once.take(2);
  once.refill(1e9);
  assert.equal(once.waitMs(1), Number.POSITIVE_INFINITY);
});
