import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TickPattern, Ticks, tickProblem } from './ticks.ts';

const at = (text: string): number => Date.parse(text);
const iso = (ticks: readonly (number | undefined)[]): string[] =>
  ticks.map((tick) => (tick === undefined ? 'none' : new Date(tick).toISOString()));

function next(pattern: TickPattern, from: string, count: number): string[] {
  const ticks = new Ticks(pattern);
  const found: number[] = [];
  for (let last: number | undefined = at(from); found.length < count; found.push(last)) {
    last = ticks.after(last);
    if (last === undefined) break;
  }
  return iso(found);
}

test('an interval is due at its multiples since 1970, whenever it is looked at', () => {
  const pattern = { everyMs: 90_000, timeZone: 'UTC' };
  assert.deepEqual(next(pattern, '1970-01-01T00:00:00Z', 2), [
    '1970-01-01T00:01:30.000Z',
    '1970-01-01T00:03:00.000Z',
  ]);
  assert.deepEqual(next(pattern, '1970-01-01T00:02:59.999Z', 1), ['1970-01-01T00:03:00.000Z']);
  assert.deepEqual(
    new Ticks(pattern).latest(at('1970-01-01T00:01:30Z'), at('1970-01-01T00:06:00Z'), 10),
    [180_000, 270_000, 360_000],
    'the earlier end is not included, the later one is',
  );
  assert.deepEqual(new Ticks(pattern).latest(0, 1_000_000, 2), [900_000, 990_000], 'the last ones of many');
});

test('an expression is due at its times in its zone, and is looked at from both sides alike', () => {
  const pattern = { cron: '*/10 * * * * *', timeZone: 'Europe/Berlin' };
  const from = at('2026-06-01T10:00:00Z');
  const ahead = next(pattern, '2026-06-01T10:00:00Z', 6);
  assert.deepEqual(ahead.at(-1), '2026-06-01T10:01:00.000Z');
  const ticks = new Ticks(pattern);
  for (const offset of [0, 1, 999])
    assert.deepEqual(iso(ticks.latest(from, at('2026-06-01T10:01:00Z') + offset, 100)), ahead);
  assert.deepEqual(iso(ticks.latest(from, at('2026-06-01T10:00:59.999Z'), 1)), ['2026-06-01T10:00:50.000Z']);
  assert.deepEqual(next({ cron: '@daily', timeZone: 'Europe/Berlin' }, '2026-06-01T10:00:00Z', 1), [
    '2026-06-01T22:00:00.000Z',
  ]);
});

test('a local time that summer time leaves out is due after the gap, and one that it repeats is due once', () => {
  const daily = { cron: '30 2 * * *', timeZone: 'Europe/Berlin' };
  assert.deepEqual(next(daily, '2026-03-28T12:00:00Z', 2), [
    '2026-03-29T01:00:00.000Z',
    '2026-03-30T00:30:00.000Z',
  ]);
  assert.deepEqual(next(daily, '2026-10-24T12:00:00Z', 2), [
    '2026-10-25T00:30:00.000Z',
    '2026-10-26T01:30:00.000Z',
  ]);
  const lists = {
    '15,45 2 * * *': ['01:00', '00:15 00:45'],
    '0 2,14 * * *': ['01:00 12:00', '00:00 13:00'],
    '30 1-3 * * *': ['00:30 01:00 01:30', '23:30 00:30 02:30'],
    '0,30 30 2 * * *': ['01:00', '00:30 00:30'],
  };
  for (const [cron, days] of Object.entries(lists))
    for (const [nth, day] of ['2026-03-29', '2026-10-25'].entries()) {
      const all = next({ cron, timeZone: 'Europe/Berlin' }, `${day}T00:00:00+02:00`, 5);
      const end = new Date(at(`${day}T22:00:00Z`)).toISOString();
      const times = all.filter((tick) => tick < end).map((tick) => tick.slice(11, 16));
      assert.equal(times.join(' '), days[nth], `${cron} on ${day}`);
    }
  const beforeMidnight = { cron: '59 23 * * *', timeZone: 'America/Nuuk' };
  assert.deepEqual(
    next(beforeMidnight, '2026-03-28T12:00:00Z', 2),
    ['2026-03-29T01:00:00.000Z', '2026-03-30T00:59:00.000Z'],
    'the hour before midnight is left out: the tick is due at midnight',
  );
  const halfHours = { cron: '*/30 * * * *', timeZone: 'Europe/Berlin' };
  for (const night of ['2026-03-28T23:45:00Z', '2026-10-24T23:45:00Z']) {
    const gaps = next(halfHours, night, 8).map((tick, nth, all) => at(tick) - at(all[nth - 1] ?? tick));
    assert.deepEqual(gaps.slice(1), Array(7).fill(1_800_000), night);
  }
});

test('ticks that are made up for are those that were left out, also over a change of the clock and many at once', () => {
  for (const day of ['2026-03-29', '2026-10-25'])
    for (const cron of [
      '30 2 * * *',
      '15,45 2 * * *',
      '*/20 2 * * *',
      '30 1-3 * * *',
      '0,30 30 2 * * *',
      '@daily',
      '*/7 * * * *',
      '0 0 L * *',
    ]) {
      const pattern = { cron, timeZone: 'Europe/Berlin' };
      const [from, to] = [at(day) - 36 * 3_600_000 + 1, at(day) + 36 * 3_600_000];
      const ahead = next(pattern, new Date(from).toISOString(), 1000).filter((tick) => at(tick) <= to);
      const ticks = new Ticks(pattern);
      assert.deepEqual(iso(ticks.latest(from, to, 1000)), ahead, `${cron} around ${day}`);
      assert.deepEqual(iso(ticks.latest(from, to, 9)), ahead.slice(-9), `the last of ${cron} around ${day}`);
    }
});

test('what is wrong with a pattern is named with its field', () => {
  const now = at('2026-06-01T10:00:00Z');
  const fieldOf = (pattern: Partial<TickPattern>): string | undefined =>
    tickProblem({ timeZone: 'UTC', ...pattern }, now)?.field;
  assert.equal(fieldOf({ cron: '0 0 * * *' }), undefined);
  assert.equal(fieldOf({ everyMs: 1000 }), undefined);
  assert.equal(fieldOf({}), 'cron');
  assert.equal(fieldOf({ cron: '0 0 * * *', everyMs: 1000 }), 'cron');
  assert.equal(fieldOf({ cron: '61 * * * *' }), 'cron');
  assert.equal(fieldOf({ cron: 'often' }), 'cron');
  assert.equal(fieldOf({ cron: '* * * * * * 2020' }), 'cron');
  assert.equal(fieldOf({ cron: '0 0 30 2 *' }), 'cron', 'February 30th');
  assert.equal(fieldOf({ cron: '2020-01-01T00:00:00' }), 'cron', 'in the past');
  assert.equal(fieldOf({ cron: '0 0 * * *', timeZone: 'Mars/North' }), 'time_zone');
});
