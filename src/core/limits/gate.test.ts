import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Gate } from './gate.ts';
import type { Limit } from './limit.ts';

const HOUR = 3_600_000;
const gateOf = (limit: Partial<Limit>, now = 0): Gate =>
  new Gate('global', { scope: 'global', ...limit }, now);

describe('a hard budget', () => {
  test('G1: takes what fits beside all that is settled and held, to the last micro-unit', () => {
    const gate = gateOf({ costBudget: 100, hard: true });
    gate.settled = 40;
    gate.reserved = 50;
    assert.ok(gate.fits(10));
    assert.ok(!gate.fits(11));
    assert.ok(gate.couldFit(60));
    assert.ok(!gate.couldFit(61));
  });

  test('of 0 takes only what costs nothing', () => {
    const gate = gateOf({ costBudget: 0, hard: true });
    assert.ok(gate.fits(0));
    assert.ok(!gate.couldFit(1));
  });

  test('with a window could take all of the budget in another window', () => {
    const gate = gateOf({ costBudget: 100, hard: true, window: 'day' });
    gate.settled = 100;
    assert.ok(!gate.fits(1));
    assert.ok(gate.couldFit(100));
    assert.ok(!gate.couldFit(101));
  });

  test('is exact for large numbers', () => {
    const gate = gateOf({ costBudget: Number.MAX_SAFE_INTEGER, hard: true });
    gate.settled = Number.MAX_SAFE_INTEGER - 1;
    assert.ok(gate.fits(1));
    assert.ok(!gate.fits(2));
  });
});

test('a soft budget only warns: at 50, 80 and 100 percent of what is settled', () => {
  const gate = gateOf({ costBudget: 200 });
  const warned = [99, 100, 159, 160, 199, 200, 900].map((settled) => {
    gate.settled = settled;
    return gate.kept()?.warned;
  });
  assert.deepEqual(warned, [undefined, 50, 50, 80, 80, 100, 100]);
  assert.ok(gate.fits(1e9) && gate.couldFit(1e9));
});

test('room is what the limit of running attempts leaves; 0 is a pause, and no limit is no bound', () => {
  const gate = gateOf({ running: 2 });
  gate.running = 3;
  assert.equal(gate.room, -1);
  assert.equal(gateOf({ running: 0 }).room, 0);
  assert.equal(gateOf({ costBudget: 1 }).room, Number.POSITIVE_INFINITY);
});

describe('a window', () => {
  test('that begins forgets what was settled, and not what is held', () => {
    const gate = gateOf({ costBudget: 100, hard: true, window: 'hour' });
    gate.settled = 90;
    gate.reserved = 30;
    assert.ok(!gate.roll(HOUR - 1));
    assert.ok(gate.roll(HOUR));
    assert.ok(gate.fits(70));
    assert.ok(!gate.fits(71));
  });

  test('goes on after a restart in the same window, and starts anew after one in a later window', () => {
    const limit = { costBudget: 100, hard: true, window: 'hour' } as const;
    const before = gateOf(limit, HOUR + 5);
    before.settled = 60;
    const record = { v: 1, tokens: 0, at: HOUR + 5, ...before.kept() } as const;
    const settledAt = (now: number): number => {
      const gate = gateOf(limit, now);
      gate.resume(record);
      return gate.settled;
    };
    assert.deepEqual([HOUR + 10, 2 * HOUR - 1, 2 * HOUR].map(settledAt), [60, 60, 0]);
    // The clock was set back by an hour: the later window goes on.
    assert.equal(settledAt(5), 60);
  });
});
