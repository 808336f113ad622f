import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ticks } from '../../kit/ticks.ts';
import type { CatchUp } from '../../model/schedule.ts';
import { dueTicks, GRACE_MS, MAX_CATCH_UP } from './due.ts';

const MINUTE = 60_000;
const minutes = new Ticks({ everyMs: MINUTE, timeZone: 'UTC' });
const due = (catchUp: CatchUp, tickedTo: number, now: number) =>
  dueTicks({ catchUp, tickedTo }, minutes, now);

test('nothing is due before the next tick, and one tick at it, by every rule', () => {
  for (const catchUp of ['none', 'last', 'all'] as const) {
    assert.deepEqual(due(catchUp, MINUTE, 2 * MINUTE - 1), {
      ticks: [],
      hasMissed: false,
      upTo: undefined,
      next: 2 * MINUTE,
    });
    assert.deepEqual(due(catchUp, MINUTE, 2 * MINUTE), {
      ticks: [2 * MINUTE],
      hasMissed: false,
      upTo: 2 * MINUTE,
      next: 3 * MINUTE,
    });
  }
});

test('of several that are due, the rule chooses, and tells whether some are missed', () => {
  const now = 5 * MINUTE + 10_000;
  assert.deepEqual(due('all', MINUTE, now), {
    ticks: [2, 3, 4, 5].map((n) => n * MINUTE),
    hasMissed: false,
    upTo: 5 * MINUTE,
    next: 6 * MINUTE,
  });
  for (const catchUp of ['last', 'none'] as const)
    assert.deepEqual(due(catchUp, MINUTE, now), {
      ticks: [5 * MINUTE],
      hasMissed: true,
      upTo: 5 * MINUTE,
      next: 6 * MINUTE,
    });
});

test('`none` misses what is older than the grace time, and goes on behind it', () => {
  const hours = new Ticks({ everyMs: 60 * MINUTE, timeZone: 'UTC' });
  const at = 120 * MINUTE;
  const of = (now: number) => dueTicks({ catchUp: 'none', tickedTo: 0 }, hours, now);
  assert.deepEqual(of(at + GRACE_MS), { ticks: [at], hasMissed: true, upTo: at, next: at + 60 * MINUTE });
  assert.deepEqual(of(at + GRACE_MS + 1), { ticks: [], hasMissed: true, upTo: at, next: at + 60 * MINUTE });
});

test('`all` makes up for the last ticks of a long time only', () => {
  const { ticks, hasMissed } = due('all', 0, 5000 * MINUTE);
  assert.deepEqual(
    [ticks.length, ticks[0], ticks.at(-1), hasMissed],
    [MAX_CATCH_UP, (5000 - MAX_CATCH_UP + 1) * MINUTE, 5000 * MINUTE, true],
  );
});
