import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDuration } from './duration.ts';

test('a duration is a number with its unit', () => {
  const cases: Record<string, number> = {
    '0s': 0,
    '500ms': 500,
    '90s': 90_000,
    '10m': 600_000,
    '2h': 7_200_000,
    '1d': 86_400_000,
    '1.5h': 5_400_000,
    ' 3s ': 3000,
  };
  for (const [text, ms] of Object.entries(cases)) assert.equal(parseDuration(text), ms, text);
});

test('a number without a unit, an unknown unit, a sign, and more than a year are no durations', () => {
  for (const text of ['', '10', 's', '-1s', '+1s', '1w', '1 h', '1h30m', '1e3s', '.5h', '400d', '10M'])
    assert.equal(parseDuration(text), undefined, text);
});
