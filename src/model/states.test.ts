import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ATTEMPT_STATE_MEANING,
  ATTEMPT_STATES,
  ATTEMPT_TRANSITIONS,
  isOpen,
  isTerminal,
  JOB_STATE_MEANING,
  JOB_STATES,
  JOB_TRANSITIONS,
  mayMoveAttempt,
  mayMoveJob,
} from './states.ts';

test('the transition tables are exactly these', () => {
  assert.deepEqual(JOB_TRANSITIONS, {
    queued: ['claimed', 'cancelled', 'dead'],
    claimed: ['running', 'queued', 'stale', 'failed', 'cancelled'],
    running: ['succeeded', 'failed', 'queued', 'waiting', 'stale', 'cancelled'],
    waiting: ['queued', 'cancelled', 'dead'],
    stale: ['running', 'succeeded', 'waiting', 'queued', 'failed', 'cancelled', 'dead'],
    failed: ['queued', 'dead', 'cancelled'],
    dead: ['queued'],
    succeeded: [],
    cancelled: [],
  });
  assert.deepEqual(ATTEMPT_TRANSITIONS, {
    intended: ['accepted', 'ended', 'unknown', 'abandoned'],
    accepted: ['ended', 'unknown'],
    unknown: ['accepted', 'ended', 'abandoned'],
    ended: [],
    abandoned: [],
  });
});

test('every state that a table names has a row and a meaning', () => {
  for (const to of Object.values(JOB_TRANSITIONS).flat()) assert.ok(JOB_STATES.includes(to));
  for (const to of Object.values(ATTEMPT_TRANSITIONS).flat()) assert.ok(ATTEMPT_STATES.includes(to));
  for (const state of JOB_STATES) assert.ok(JOB_STATE_MEANING[state].length > 3);
  for (const state of ATTEMPT_STATES) assert.ok(ATTEMPT_STATE_MEANING[state].length > 3);
});

test('every state can be reached from the first one', () => {
  const reachable = <S extends string>(from: S, table: Record<S, readonly S[]>): Set<S> => {
    const seen = new Set([from]);
    for (const state of seen) for (const next of table[state]) seen.add(next);
    return seen;
  };
  assert.equal(reachable('queued', JOB_TRANSITIONS).size, JOB_STATES.length);
  assert.equal(reachable('intended', ATTEMPT_TRANSITIONS).size, ATTEMPT_STATES.length);
});

test('only a dead job leaves a terminal state, by a redrive; a closed attempt never moves', () => {
  for (const state of JOB_STATES.filter(isTerminal)) {
    assert.deepEqual(
      JOB_STATES.filter((to) => mayMoveJob(state, to)),
      state === 'dead' ? ['queued'] : [],
    );
  }
  assert.deepEqual(JOB_STATES.filter(isTerminal), ['dead', 'succeeded', 'cancelled']);
  for (const state of ATTEMPT_STATES) {
    const moves = ATTEMPT_STATES.some((to) => mayMoveAttempt(state, to));
    assert.equal(moves, isOpen(state));
  }
});
