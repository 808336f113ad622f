import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryAfterMs } from './retry-after.ts';

const DAY = 86_400_000;
const NOW = Date.parse('2030-01-01T00:00:00Z');
const date = 'Tue, 01 Jan 2030 00:00:00 GMT';

const WAITS: [string, Record<string, string>, number | undefined][] = [
  ['nothing', {}, undefined],
  ['seconds', { 'retry-after': '2.5' }, 2500],
  ['zero', { 'retry-after': '0' }, undefined],
  ['something negative', { 'retry-after': '-3' }, undefined],
  ['no number', { 'retry-after': 'soon' }, undefined],
  ['a date', { 'retry-after': 'Tue, 01 Jan 2030 00:02:00 GMT' }, 120_000],
  ['a date that is over', { 'retry-after': 'Mon, 31 Dec 2029 00:00:00 GMT' }, undefined],
  [
    'a date after that of the answer',
    { date: 'Tue, 01 Jan 2030 00:01:50 GMT', 'retry-after': 'Tue, 01 Jan 2030 00:02:00 GMT' },
    10_000,
  ],
  ['milliseconds', { 'retry-after-ms': '20.5', 'retry-after': '9' }, 21],
  ['a year', { 'retry-after': '31536000' }, DAY],
  ['durations', { 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-reset-tokens': '6m0s' }, 360_000],
  ['small durations', { 'x-ratelimit-reset-tokens': '12ms' }, 12],
  ['long durations', { 'x-ratelimit-reset-tokens': '1h2m3.5s' }, 3_723_500],
  ['a duration without a unit', { 'x-ratelimit-reset-tokens': '12' }, undefined],
  [
    'times',
    {
      date,
      'anthropic-ratelimit-requests-reset': '2030-01-01T00:00:05Z',
      'anthropic-ratelimit-tokens-reset': '2030-01-01T00:00:30Z',
    },
    30_000,
  ],
  [
    'seconds before times',
    { date, 'retry-after': '3', 'anthropic-ratelimit-tokens-reset': '2030-01-01T00:00:30Z' },
    3000,
  ],
];
for (const [what, headers, expected] of WAITS) {
  test(`a wait of ${what} is ${expected}`, () => assert.equal(retryAfterMs(headers, DAY, NOW), expected));
}

test('a date says nothing where no time is known', () => {
  assert.equal(retryAfterMs({ 'retry-after': 'Tue, 01 Jan 2030 00:02:00 GMT' }, DAY, undefined), undefined);
});
