import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryDisk } from '../../../../test/fakes/memory-disk.ts';
import { realEnv } from '../../../kit/env/real.ts';
import { endOf } from './outcome.ts';

test('a start that fails because the machine lacks something is tried again after a while, any other never', async () => {
  const failedBy = async (errno: string) => {
    const exit = { code: null, signal: null, why: 'start', errno, stderr_tail: '', ended_at: 0 } as const;
    const end = await endOf({ ...realEnv(), disk: new MemoryDisk() }, '/stdout', exit);
    assert.ok(end.is === 'ended' && end.outcome.ok === false);
    const { error, retryAfterMs } = end.outcome;
    return [error.code, error.retriable, retryAfterMs];
  };
  assert.deepEqual(await failedBy('ENOSPC'), ['WORKER_START_FAILED', true, 30_000]);
  assert.deepEqual(await failedBy('ENOENT'), ['WORKER_START_FAILED', false, undefined]);
});
