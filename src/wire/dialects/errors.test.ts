import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorFromReply, providerError, providerStreamError } from './errors.ts';

const reply = (status: number, error: unknown) => ({
  status,
  headers: {},
  body: Buffer.from(typeof error === 'string' ? error : JSON.stringify({ error })),
});

const ANSWERS: [number, unknown, string, boolean, string | undefined][] = [
  [429, { type: 'rate_limit_error' }, 'RATE_LIMITED', true, 'rate_limited'],
  [429, 'no JSON', 'RATE_LIMITED', true, 'rate_limited'],
  [429, { code: 'insufficient_quota', type: 'x' }, 'RATE_LIMITED', true, 'quota'],
  [429, { type: 'insufficient_quota', code: null }, 'RATE_LIMITED', true, 'quota'],
  [402, { type: 'billing_error' }, 'RATE_LIMITED', true, 'quota'],
  [
    400,
    { type: 'invalid_request_error', message: 'Your credit balance is too low' },
    'RATE_LIMITED',
    true,
    'quota',
  ],
  [401, { message: 'no' }, 'EXECUTION_FAILED', true, 'auth_required'],
  [403, '<html>', 'EXECUTION_FAILED', true, 'auth_required'],
  [529, { type: 'overloaded_error' }, 'WORKER_BUSY', true, 'overloaded'],
  [503, { type: 'overloaded_error' }, 'WORKER_BUSY', true, 'overloaded'],
  [503, { message: 'The engine is currently overloaded.' }, 'WORKER_BUSY', true, 'overloaded'],
  // A proxy may speak JSON too, after the provider has done the work.
  [503, { message: 'The upstream server is timing out' }, 'UNKNOWN_OUTCOME', false, undefined],
  [503, {}, 'UNKNOWN_OUTCOME', false, undefined],
  [408, { type: 'timeout' }, 'UNKNOWN_OUTCOME', false, undefined],
  [503, '<html>', 'UNKNOWN_OUTCOME', false, undefined],
  [500, { type: 'api_error' }, 'EXECUTION_FAILED', true, undefined],
  [502, '<html>', 'UNKNOWN_OUTCOME', false, undefined],
  [504, { type: 'timeout_error' }, 'UNKNOWN_OUTCOME', false, undefined],
  [524, '', 'UNKNOWN_OUTCOME', false, undefined],
  [400, { message: 'odd' }, 'EXECUTION_FAILED', false, undefined],
  [400, { message: 'prompt is too long: 9 tokens' }, 'CONTEXT_TOO_LONG', false, undefined],
  [404, { message: 'no such model' }, 'EXECUTION_FAILED', false, undefined],
  [413, { type: 'request_too_large' }, 'EXECUTION_FAILED', false, undefined],
  [429, { code: 429, status: 'RESOURCE_EXHAUSTED' }, 'RATE_LIMITED', true, 'rate_limited'],
  [
    429,
    { status: 'RESOURCE_EXHAUSTED', details: [{ violations: [{ quotaId: 'RequestsPerDayPerProject' }] }] },
    'RATE_LIMITED',
    true,
    'quota',
  ],
  [503, { code: 503, status: 'UNAVAILABLE' }, 'WORKER_BUSY', true, 'overloaded'],
  [
    400,
    { status: 'INVALID_ARGUMENT', details: [{ reason: 'API_KEY_INVALID' }] },
    'EXECUTION_FAILED',
    true,
    'auth_required',
  ],
  [403, { code: 403, status: 'PERMISSION_DENIED' }, 'EXECUTION_FAILED', true, 'auth_required'],
  [400, { code: 400, status: 'INVALID_ARGUMENT', message: 'odd' }, 'EXECUTION_FAILED', false, undefined],
  [
    400,
    { message: 'The input token count (9) exceeds the maximum number of tokens allowed (8).' },
    'CONTEXT_TOO_LONG',
    false,
    undefined,
  ],
  [504, { code: 504, status: 'DEADLINE_EXCEEDED' }, 'UNKNOWN_OUTCOME', false, undefined],
];
for (const [status, error, code, retriable, turnedAway] of ANSWERS) {
  test(`a provider's ${status} with ${JSON.stringify(error)} is ${code}`, () => {
    const found = providerError(reply(status, error), 0);
    assert.deepEqual([found.code, found.retriable, found.details.turnedAway], [code, retriable, turnedAway]);
  });
}

test('the status that Google gives an error is in its message', () => {
  const error = { code: 404, status: 'NOT_FOUND', message: 'no such model' };
  assert.match(providerError(reply(404, error), 0).message, /answered 404: NOT_FOUND: no such model$/);
});

test('the message about a key is not passed on', () => {
  assert.doesNotMatch(providerError(reply(401, { message: 'sk-123 is wrong' }), 0).message, /sk-123/);
});

const EVENTS: [unknown, boolean, string, boolean, string | undefined][] = [
  [{ type: 'overloaded_error' }, false, 'WORKER_BUSY', true, 'overloaded'],
  [{ type: 'overloaded_error' }, true, 'EXECUTION_FAILED', true, undefined],
  [{ code: 'rate_limit_exceeded' }, false, 'RATE_LIMITED', true, 'rate_limited'],
  [{ code: 'insufficient_quota' }, false, 'RATE_LIMITED', true, 'quota'],
  [{ type: 'invalid_request_error' }, false, 'EXECUTION_FAILED', false, undefined],
  [{ type: 'api_error' }, false, 'EXECUTION_FAILED', true, undefined],
  [{ message: 'maximum context length is 8' }, true, 'CONTEXT_TOO_LONG', false, undefined],
  [{ code: 503, status: 'UNAVAILABLE' }, false, 'WORKER_BUSY', true, 'overloaded'],
  [{ code: 503, status: 'UNAVAILABLE' }, true, 'EXECUTION_FAILED', true, undefined],
  [{ code: 400, status: 'INVALID_ARGUMENT' }, false, 'EXECUTION_FAILED', false, undefined],
  ['just text', false, 'EXECUTION_FAILED', true, undefined],
];
for (const [error, hasBegun, code, retriable, turnedAway] of EVENTS) {
  test(`${JSON.stringify(error)} ${hasBegun ? 'after' : 'before'} output is ${code}`, () => {
    const found = providerStreamError(error, hasBegun);
    assert.deepEqual([found.code, found.retriable, found.details.turnedAway], [code, retriable, turnedAway]);
  });
}

test('a server of our own that has no room is busy, and one that is limited says for how long, an hour at most', () => {
  assert.equal(errorFromReply(reply(503, 'loading')).code, 'WORKER_BUSY');
  const limited = { ...reply(429, {}), headers: { 'retry-after': '999999' } };
  assert.deepEqual(errorFromReply(limited).details, {
    retryAfterMs: 3_600_000,
    policyLabel: 'upstream',
    turnedAway: 'rate_limited',
  });
});

test('the wait in the body of an error is read for providers, for servers of our own, and in streams', () => {
  const error = { code: 'rate_limit_exceeded', message: 'Please try again in 1.5s.' };
  assert.equal(providerError(reply(429, error), 0).details.retryAfterMs, 1500);
  assert.equal(errorFromReply(reply(429, error)).details.retryAfterMs, 1500);
  assert.equal(providerStreamError(error, false).details.retryAfterMs, 1500);
  assert.equal(providerStreamError(error, true).details.retryAfterMs, undefined, 'it was not turned away');
  const google = JSON.stringify([{ error: { code: 429, details: [{ retryDelay: '30s' }] } }]);
  assert.equal(providerError(reply(429, google), 0).details.retryAfterMs, 30_000);
});

const CHARGES: [string, number, boolean | undefined, boolean | undefined][] = [
  ['a request that is refused', 400, true, true],
  ['a model that is not there', 404, true, true],
  ['a failure that the provider owns to', 500, true, undefined],
  ['a proxy that has lost the answer', 502, undefined, undefined],
  ['a wrong key', 401, undefined, true],
];
for (const [what, status, provider, server] of CHARGES) {
  test(`whether ${what} (${status}) is known to cost nothing`, () => {
    const answer = reply(status, { message: 'no' });
    assert.deepEqual(
      [providerError(answer, 0).details.isUncharged, errorFromReply(answer).details.isUncharged],
      [provider, server],
    );
  });
}
