import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryAfterIn, retryAfterMs } from './retry-after.ts';

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
  ['seconds of a limit', { 'x-ratelimit-reset-requests-day': '33011.5' }, 33_011_500],
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
  ['a number in another base', { 'retry-after': '0x10' }, undefined],
  ['a number without an end', { 'retry-after': '9'.repeat(400) }, undefined],
  ['a text that only looks like a date', { 'retry-after': 'maybe 2099' }, undefined],
  ['an obsolete date', { date, 'retry-after': 'Tue Jan  1 00:00:09 2030' }, 9000],
  ['another obsolete date', { date, 'retry-after': 'Tuesday, 01-Jan-30 00:00:09 GMT' }, 9000],
  ['a duration in no known unit', { 'x-ratelimit-reset-tokens': '3fortnights' }, undefined],
  ['a negative duration', { 'x-ratelimit-reset-tokens': '-3s' }, undefined],
  ['a time in seconds since 1970', { date, 'x-ratelimit-reset': String(NOW / 1000 + 4) }, 4000],
  ['a time in milliseconds since 1970', { date, 'x-ratelimit-reset': String(NOW + 4321) }, 4321],
  ['seconds until a reset', { 'x-ratelimit-reset': '1.5' }, 1500],
  ['seconds in the spelling of the draft', { 'ratelimit-reset': '30' }, 30_000],
  ['a reset that is over', { date, 'x-ratelimit-reset': String(NOW / 1000 - 4) }, undefined],
  [
    'a limit that was reached, beside one that was not',
    {
      date,
      'anthropic-ratelimit-requests-remaining': '49',
      'anthropic-ratelimit-requests-reset': '2030-01-01T09:00:00Z',
      'anthropic-ratelimit-output-tokens-remaining': '0',
      'anthropic-ratelimit-output-tokens-reset': '2030-01-01T00:00:07Z',
    },
    7000,
  ],
  [
    'a duration for tokens, while requests remain',
    {
      'x-ratelimit-remaining-requests': '9999',
      'x-ratelimit-reset-requests': '8h0m0s',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '120ms',
    },
    120,
  ],
  ['limits that were not reached', { 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': '60' }, undefined],
  ['a header of something else', { 'x-other-reset': '60', 'x-ratelimit-limit-tokens': '60' }, undefined],
];
for (const [what, headers, expected] of WAITS) {
  test(`a wait of ${what} is ${expected}`, () => assert.equal(retryAfterMs({ headers }, DAY, NOW), expected));
}

const info = (retryDelay: unknown) => ({
  code: 429,
  details: [
    { '@type': 'type.googleapis.com/google.rpc.Help', links: [] },
    { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay },
  ],
});
const said = (message: string) => ({ code: 'rate_limit_exceeded', message });
const ERRORS: [unknown, number | undefined][] = [
  [undefined, undefined],
  [{}, undefined],
  [info('30s'), 30_000],
  [info('0.25s'), 250],
  [info({ seconds: '7', nanos: 0 }), 7000],
  [info('soon'), undefined],
  [info('-30s'), undefined],
  [{ details: 'nothing' }, undefined],
  [said('Rate limit reached: Limit 3, Used 3, Requested 1. Please try again in 20s. Visit us.'), 20_000],
  [said('Please try again in 6m0s.'), 360_000],
  [said('Please try again in 120ms. Contact us'), 120],
  [said('Please try again in 1h2m3.5s.'), 3_723_500],
  [said('Please retry after 20 seconds.'), 20_000],
  [said('Please try again in 2 minutes 30 seconds'), 150_000],
  [said('Please try again in 400 days.'), DAY],
  [said('Please try again in 3 moons.'), undefined],
  [said('Please try again later.'), undefined],
  ['Slow down: try again in 2s', 2000],
  [{ retry_after_ms: 1234, retry_after: 2 }, 1234],
  [{ retry_after: 2.5 }, 2500],
  [{ retry_after: -1, retry_after_ms: Number.NaN }, undefined],
];
for (const [error, expected] of ERRORS) {
  test(`a wait in the body ${JSON.stringify(error)} is ${expected}`, () => {
    assert.equal(retryAfterMs({ headers: {}, error }, DAY, NOW), expected);
    assert.equal(retryAfterIn(error, DAY), expected);
  });
}

test('of spellings that disagree the first counts: milliseconds, seconds, the body, the resets of limits', () => {
  const headers: Record<string, string> = {
    'retry-after-ms': '1500',
    'retry-after': '20',
    'x-ratelimit-reset-tokens': '6m0s',
  };
  const error = said('Please try again in 40s.');
  const waits: (number | undefined)[] = [];
  for (const name of ['', ...Object.keys(headers)]) {
    delete headers[name];
    waits.push(retryAfterMs({ headers, error }, DAY, NOW));
  }
  assert.deepEqual(waits, [1500, 20_000, 40_000, 40_000]);
  assert.equal(retryAfterMs({ headers: { 'x-ratelimit-reset-tokens': '6m0s' } }, DAY, NOW), 360_000);
  const both = { headers: { 'retry-after': 'nonsense', 'x-ratelimit-reset-tokens': '6m0s' }, error };
  assert.equal(retryAfterMs(both, DAY, NOW), 40_000, 'what names no wait is passed over');
});

test('a date says nothing where no time is known', () => {
  const headers = { 'retry-after': 'Tue, 01 Jan 2030 00:02:00 GMT' };
  assert.equal(retryAfterMs({ headers }, DAY, undefined), undefined);
});
