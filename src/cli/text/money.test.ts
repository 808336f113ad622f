import assert from 'node:assert/strict';
import { test } from 'node:test';
import { moneyText } from './money.ts';

test('money is exact, with two decimals at least', () => {
  const text = (millionths: number): string => moneyText(millionths, 'USD');
  assert.deepEqual([0, 1, 10_000, 1_500_000, 1_234_567, -250, 9_007_199_254_740_991].map(text), [
    '0.00 USD',
    '0.000001 USD',
    '0.01 USD',
    '1.50 USD',
    '1.234567 USD',
    '-0.00025 USD',
    '9007199254.740991 USD',
  ]);
});
