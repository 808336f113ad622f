import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { costOf, type Rates } from './price.ts';

const NOTHING = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };
const RATES: Rates = [3_000_000, 300_000, 3_750_000, 15_000_000, 12_000_000, 500, 70, 2_000, 100];
const ALONE = { images: 0, ms: 0 };

test('every count has its own rate, and is charged once', () => {
  const rates: Rates = [...RATES.slice(0, 6), 0, 2_000, 100] as unknown as Rates;
  const counts = { input: 1000, cacheRead: 1000, cacheWrite: 1000, output: 1000, reasoning: 1000 };
  for (const [name, cost] of Object.entries({
    input: 3000,
    cacheRead: 300,
    cacheWrite: 3750,
    output: 15_000,
    reasoning: 12_000,
  }))
    assert.equal(costOf(rates, { ...NOTHING, [name]: 1000 }, ALONE), cost, name);
  assert.equal(costOf(rates, counts, { images: 2, ms: 1500 }), 34_050 + 1000 + 3000);
  assert.equal(costOf(RATES, NOTHING, ALONE), 70);
});

test('a cost is rounded up once, and batches take their share of the exact sum', () => {
  const cheap: Rates = [75_000, 1, 1, 1, 1, 0, 0, 0, 100];
  assert.equal(costOf(cheap, { ...NOTHING, input: 1 }, ALONE), 1);
  assert.equal(costOf(cheap, { ...NOTHING, input: 13, cacheRead: 1, output: 1 }, ALONE), 1);
  assert.equal(costOf(cheap, { ...NOTHING, input: 40 }, ALONE), 3);
  const half: Rates = [75_000, 1, 1, 1, 1, 0, 1, 0, 50];
  assert.equal(costOf(half, { ...NOTHING, input: 40 }, ALONE), 2);
});

test('a cost grows with every count and is exact for counts of any size', () => {
  const count = fc.oneof(fc.nat({ max: 100_000 }), fc.integer({ min: 0, max: 2 ** 40 }));
  const tokens = fc.record({
    input: count,
    cacheRead: count,
    cacheWrite: count,
    output: count,
    reasoning: count,
  });
  fc.assert(
    fc.property(tokens, (counts) => {
      const cost = costOf(RATES, counts, ALONE);
      const sum = [counts.input, counts.cacheRead, counts.cacheWrite, counts.output, counts.reasoning];
      const exact = sum.reduce((all, each, at) => all + BigInt(each) * BigInt(RATES[at] as number), 0n);
      const whole = exact / 1_000_000n + (exact % 1_000_000n === 0n ? 0n : 1n);
      assert.equal(cost, Number(whole + 70n));
    }),
  );
});

test('counts that are no counts add nothing', () => {
  for (const bad of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])
    assert.equal(costOf(RATES, { ...NOTHING, output: bad }, ALONE), 70);
});
