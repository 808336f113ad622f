import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobView } from './http/jobs.ts';
import { tableRowOf } from './jobs-table.ts';
import { JOB_STATES } from './states.ts';

const attempt = { attempt: 2, backend: 'consumers/gpu', state: 'ended', intended_at: 20 } as const;
const view = (more: Partial<JobView>): JobView =>
  ({ job_id: 'a', type: 't', state: 'queued', created_at: 10, attempts: [], ...more }) as JobView;

test('every state has a word of the table, and no two have the same', () => {
  const words: readonly string[] = JOB_STATES.map((state) => tableRowOf(view({ state })).status);
  assert.deepEqual(
    words.toSorted(),
    'cancelled claimed dead_letter done failed pending running stale waiting'.split(' '),
  );
});

test('a job that nobody has tried has no owner, no attempt and no error', () => {
  assert.deepEqual(tableRowOf(view({})), {
    job_id: 'a',
    type: 't',
    status: 'pending',
    owner_pool: null,
    attempts: 0,
    created_at: 10,
    updated_at: 10,
    last_error: null,
  });
});

for (const state of JOB_STATES) {
  test(`a job that is ${state} has an owner unless it waits for one`, () => {
    const { owner_pool, attempts } = tableRowOf(view({ state, attempts: [attempt] }));
    const waits = state === 'queued' || state === 'waiting';
    assert.deepEqual([owner_pool, attempts], [waits ? null : 'gpu', 2]);
  });
}

test('the last instant that is known is that of the last change, and an error has its code before it', () => {
  const error = { code: 'EXECUTION_FAILED', message: 'no luck', retriable: false } as const;
  const attempts = [{ ...attempt, accepted_at: 30, ended_at: 40 }];
  const { updated_at, last_error } = tableRowOf(view({ state: 'dead', attempts, error, started_at: 30 }));
  assert.deepEqual([updated_at, last_error], [40, 'EXECUTION_FAILED: no luck']);
});
