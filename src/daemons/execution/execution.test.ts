import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { OrchdError } from '../../model/errors.ts';
import { Execution } from './execution.ts';

const begun = (): Execution => {
  const { clock } = realEnv();
  return new Execution({
    owner: 'o',
    token: 't:1',
    jobId: 't',
    model: 'm',
    clock,
    maxLogBytes: 1000,
  });
};

const stopped = (): Execution => {
  const execution = begun();
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

test('a request that nobody charges for has used nothing; of any other failure that is not known', () => {
  const usageAfter = (
    details: OrchdError['details'],
    noted?: { prompt_tokens: number; completion_tokens: number },
  ) => {
    const execution = begun();
    execution.noteUsage(noted);
    const { outcome } = execution.failure(new OrchdError('EXECUTION_FAILED', 'no', details));
    return outcome.ok === false && outcome.error.usage;
  };
  const nothing = { prompt_tokens: 0, completion_tokens: 0 };
  const some = { prompt_tokens: 3, completion_tokens: 1 };
  assert.deepEqual(usageAfter({ isUncharged: true }), nothing);
  assert.deepEqual(usageAfter({ isUncharged: true }, some), some, 'what was counted');
  assert.equal(usageAfter({}), undefined);
  assert.equal(usageAfter({ isUncharged: true, turnedAway: 'overloaded' }), undefined);
});

test('tokens that turn out to be unknown are not reported as those that were known before', () => {
  const execution = stopped();
  execution.noteUsage({ prompt_tokens: 3, completion_tokens: 1 });
  execution.noteUsage(undefined);
  assert.deepEqual(execution.failure(new Error('aborted')).outcome, { ok: 'cancelled' });
});
