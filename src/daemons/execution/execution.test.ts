import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { OrchdError } from '../../model/errors.ts';
import { Execution } from './execution.ts';

const stopped = (): Execution => {
  const { clock } = realEnv();
  const execution = new Execution({
    owner: 'o',
    token: 't:1',
    jobId: 't',
    model: 'm',
    clock,
    maxLogBytes: 1000,
  });
  execution.cancel();
  return execution;
};

test('a cancelled execution has ended as cancelled, unless its engine cannot say whether it has ended', () => {
  const usage = { prompt_tokens: 3, completion_tokens: 1 };
  const execution = stopped();
  execution.noteUsage(usage);
  assert.deepEqual(execution.failure(new Error('aborted')).outcome, { ok: 'cancelled', usage });
  const { outcome } = stopped().failure(new OrchdError('UNKNOWN_OUTCOME', 'not confirmed'));
  assert.equal(outcome.ok === false && outcome.error.code, 'UNKNOWN_OUTCOME');
});
