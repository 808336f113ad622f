import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JOB_STATES, mayMoveJob } from '../model/states.ts';
import { mayChangeStatus, SPOOL_STATUSES, STATUS_OF } from './states.ts';

/** The table of the original design of the spool. */
const ORIGINAL = {
  queued: ['in-progress'],
  'in-progress': ['succeeded', 'failed', 'stale'],
  stale: ['queued', 'killed'],
  succeeded: [],
  failed: ['queued', 'killed'],
  killed: [],
} as const;

test('[FARRO-3] every status of the original has its moves', () => {
  assert.deepEqual([...SPOOL_STATUSES].sort(), Object.keys(ORIGINAL).sort());
  for (const [from, moves] of Object.entries(ORIGINAL))
    for (const to of moves)
      assert.equal(mayChangeStatus(from as keyof typeof ORIGINAL, to), true, `${from} ${to}`);
});

test('[FARRO-3] a move of the spool is a move of a job between states with these statuses, and no other', () => {
  for (const from of SPOOL_STATUSES)
    for (const to of SPOOL_STATUSES) {
      const moves = JOB_STATES.filter((state) => STATUS_OF[state] === from).flatMap((state) =>
        JOB_STATES.filter((next) => STATUS_OF[next] === to && mayMoveJob(state, next)),
      );
      assert.equal(mayChangeStatus(from, to), from !== to && moves.length > 0, `${from} ${to}`);
    }
});

test('nothing leaves succeeded, and nothing becomes stale that was not in progress', () => {
  for (const to of SPOOL_STATUSES) assert.equal(mayChangeStatus('succeeded', to), false);
  const toStale = SPOOL_STATUSES.filter((from) => mayChangeStatus(from, 'stale'));
  assert.deepEqual(toStale, ['in-progress']);
});
