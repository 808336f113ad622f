import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BudgetWindow } from './budget-window.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const at = (text: string): number => Date.parse(text);

describe('the window of a budget', () => {
  test('in total never ends', () => {
    const window = new BudgetWindow({}, 0);
    assert.ok(!window.roll(1e15));
    assert.equal(window.end, Number.POSITIVE_INFINITY);
    assert.equal(window.start, undefined);
  });

  test('never goes back: the clock may be set back over its start as often as it will', () => {
    const window = new BudgetWindow({ window: 'day' }, DAY - 1);
    assert.ok(window.roll(DAY));
    assert.ok(!window.roll(DAY - 5));
    assert.ok(!window.roll(DAY + 5));
    assert.ok(!window.roll(2 * DAY - 1));
    assert.ok(window.roll(2 * DAY));
  });

  test('of a clock that is set forward and back again grants nothing twice', () => {
    const window = new BudgetWindow({ window: 'hour' }, 0);
    assert.ok(window.roll(5 * HOUR));
    for (const hour of [0, 1, 2, 3, 4, 5]) assert.ok(!window.roll(hour * HOUR + 10));
    assert.ok(window.roll(6 * HOUR));
  });

  test('begins once in each of the two hours that daylight saving repeats, and each has its own end', () => {
    // In Berlin it is 02:30 twice on this day: at 00:30 and at 01:30 of UTC.
    const window = new BudgetWindow(
      { window: 'hour', timeZone: 'Europe/Berlin' },
      at('2026-10-25T00:30:00Z'),
    );
    assert.equal(window.end, at('2026-10-25T01:00:00Z'));
    assert.ok(!window.roll(at('2026-10-25T00:59:59Z')));
    assert.ok(window.roll(at('2026-10-25T01:30:00Z')));
    assert.equal(window.end, at('2026-10-25T02:00:00Z'));
    assert.ok(!window.roll(at('2026-10-25T00:30:00Z')));
  });

  test('of the day on which daylight saving repeats an hour has 25 hours', () => {
    const window = new BudgetWindow({ window: 'day', timeZone: 'Europe/Berlin' }, at('2026-10-25T00:30:00Z'));
    assert.equal(window.end - (window.start ?? 0), 25 * HOUR);
  });
});

describe('a stored window', () => {
  test('counts if it was written in the present one', () => {
    const resumed = (stored: number, now: number): boolean =>
      new BudgetWindow({ window: 'day' }, now).resume({
        window: Math.floor(stored / DAY) * DAY,
        at: stored,
      });
    assert.ok(resumed(DAY + 1, DAY + 2));
    assert.ok(!resumed(DAY - 1, DAY));
    assert.ok(new BudgetWindow({}, DAY).resume({ at: 0 }));
  });

  test('that begins later than the present one goes on: the clock was set back', () => {
    const window = new BudgetWindow({ window: 'day' }, DAY - 1);
    assert.ok(window.resume({ window: DAY, at: DAY + 7 }));
    assert.equal(window.end, 2 * DAY);
  });

  test('in the repeated hour is told apart from the hour before it', () => {
    const limit = { window: 'hour', timeZone: 'Europe/Berlin' } as const;
    const first = at('2026-10-25T00:30:00Z');
    const window = new BudgetWindow(limit, at('2026-10-25T01:10:00Z'));
    assert.ok(!window.resume({ window: at('2026-10-25T00:00:00Z'), at: first }));
  });

  test('of another length counts as a whole if it was written in the present one', () => {
    const window = new BudgetWindow({ window: 'hour' }, DAY + 2 * HOUR);
    assert.ok(window.resume({ window: DAY, at: DAY + 2 * HOUR + 1 }));
    assert.ok(new BudgetWindow({ window: 'day' }, DAY + 2 * HOUR).resume({ at: DAY + HOUR }));
  });
});
