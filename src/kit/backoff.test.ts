import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoffMs } from './backoff.ts';

test('the delay doubles from baseDelayMs up to maxDelayMs', () => {
  const policy = { baseDelayMs: 100, maxDelayMs: 1000, jitter: 0 };
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6].map((n) => backoffMs(policy, n, 0.5)),
    [100, 200, 400, 800, 1000, 1000],
  );
});

test('jitter shortens the delay by at most its share and never lengthens it', () => {
  const policies = fc.record({
    baseDelayMs: fc.integer({ min: 1, max: 100_000 }),
    maxDelayMs: fc.integer({ min: 1, max: 10_000_000 }),
    jitter: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(policies, fc.integer({ min: 1, max: 10_000 }), random, (policy, n, chance) => {
      const full = backoffMs({ ...policy, jitter: 0 }, n, 0);
      const wait = backoffMs(policy, n, chance);
      assert.ok(full <= policy.maxDelayMs);
      assert.ok(wait <= full);
      assert.ok(wait >= Math.floor(full * (1 - policy.jitter)));
    }),
  );
});
