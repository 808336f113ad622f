import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Cause,
  causeName,
  causeText,
  readCause,
  type WorkerReason,
  workerReasonText,
} from './causes.ts';

const CAUSES: readonly [cause: Cause, text: string][] = [
  ['submit', 'submit'],
  [{ is: 'claim', pick: 'batch-share' }, 'claim:batch-share'],
  [{ is: 'claim', pick: 'only-class', place: 'context' }, 'claim:only-class,context'],
  [{ is: 'kill', why: 'timeout' }, 'kill:timeout'],
  [{ is: 'redrive', by: 'ada' }, 'redrive:ada'],
  [{ is: 'resolve', as: 'failed', by: 'ada' }, 'resolve:failed:ada'],
  [{ is: 'on-unknown', policy: 'retry' }, 'on-unknown:retry'],
  [{ is: 'verified', verdict: 'pass' }, 'verified:pass'],
  [{ is: 'start', why: { is: 'demand' } }, 'start:demand'],
  [{ is: 'stopping', why: { is: 'evicted', policy: 'lru', for: 'm' } }, 'stopping:evicted (lru) for m'],
  [{ is: 'worker-moved', pool: 'q' }, 'moved to q'],
  [{ is: 'worker-named', id: 'x' }, 'started as x'],
];

test('each listed cause has its text, and is read back as it was stored', () => {
  for (const [cause, text] of CAUSES) {
    assert.equal(causeText(cause), text);
    assert.deepEqual(readCause(JSON.parse(JSON.stringify(cause))), cause);
  }
});

test('a cause that an earlier version wrote as a text keeps that text; a plain one is read as itself', () => {
  assert.deepEqual(readCause('claim:only-class'), { is: 'text', text: 'claim:only-class' });
  assert.equal(causeText(readCause('claim:only-class')), 'claim:only-class');
  assert.equal(readCause('submit'), 'submit');
});

test('a redrive has the same name with and without an operator', () => {
  assert.equal(causeName('redrive'), causeName({ is: 'redrive', by: 'ada' }));
});

test('each listed reason of a worker has its text', () => {
  const reasons: readonly [WorkerReason, string][] = [
    [{ is: 'idle' }, 'idle'],
    [{ is: 'prewarm', because: 'load' }, 'prewarm (load)'],
    [{ is: 'failed', code: 'WORKER_START_FAILED' }, 'failed: WORKER_START_FAILED'],
    [{ is: 'drained', for: 'm' }, 'drained for m'],
    [{ is: 'drained-by-manager' }, 'drained by its pool manager'],
    [{ is: 'evicted-by', by: 'ada' }, 'evicted by ada'],
    [{ is: 'pool-drained', by: 'ada' }, 'its pool was drained by ada'],
    [{ is: 'pool-reloaded', by: 'ada' }, 'its pool was reloaded by ada'],
    [{ is: 'reload', by: 'ada' }, 'reload by ada'],
    [{ is: 'text', text: 'as it was' }, 'as it was'],
  ];
  for (const [why, text] of reasons) assert.equal(workerReasonText(why), text);
});
