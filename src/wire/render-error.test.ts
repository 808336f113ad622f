import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERRORS, type ErrorCode, OrchdError } from '../model/errors.ts';
import { renderError } from './render-error.ts';

const headersFor = (retryAfterMs: number): readonly (string | undefined)[] => {
  const { headers } = renderError(new OrchdError('RATE_LIMITED', undefined, { retryAfterMs }), 'c');
  return [headers['retry-after'], headers['x-backoff-ms']];
};

test('the headers give the time to wait as a whole number, at most one day', () => {
  assert.deepEqual(headersFor(1500), ['2', '1500']);
  assert.deepEqual(headersFor(0.25), ['1', '1']);
  assert.deepEqual(headersFor(0), ['1', '0']);
  assert.deepEqual(headersFor(-5), ['1', '0']);
  assert.deepEqual(headersFor(1e25), ['86400', '86400000']);
  assert.deepEqual(headersFor(Number.POSITIVE_INFINITY), ['86400', '86400000']);
});

test('[ORCH-1120] [ORCH-1121] an answer has the code of its error, and says whether a retry may help', () => {
  for (const [code, { status, retriable }] of Object.entries(ERRORS)) {
    for (const shape of ['orchd', 'openai'] as const) {
      const rendered = renderError(new OrchdError(code as ErrorCode), 'c', shape);
      assert.equal(rendered.status, status);
      assert.deepEqual([rendered.body.error.code, rendered.body.error.retriable], [code, retriable]);
    }
  }
});

test("errors of /v1 tell OpenAI's clients whether to try again, and have the status that an upstream gave", () => {
  const render = (error: OrchdError, shape: 'orchd' | 'openai') => {
    const { status, headers } = renderError(error, 'c', shape);
    return [status, headers['x-should-retry']];
  };
  assert.deepEqual(render(new OrchdError('SHUTTING_DOWN'), 'openai'), [503, 'true']);
  assert.deepEqual(render(new OrchdError('UNKNOWN_OUTCOME'), 'openai'), [409, 'false']);
  const refused = new OrchdError('EXECUTION_FAILED', 'no', { reason: 'upstream_422' });
  assert.deepEqual(render(refused, 'openai'), [422, 'false']);
  assert.deepEqual(render(refused, 'orchd'), [500, undefined]);
});
