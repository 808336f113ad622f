import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isTimeZone, type Window, type WindowKind, windowAt } from './window.ts';

const HOUR_MS = 3_600_000;
const KINDS: readonly WindowKind[] = ['hour', 'day', 'week', 'month'];
const at = (text: string): number => Temporal.Instant.from(text).epochMilliseconds;
const shown = ({ start, end }: Window, zone: string): string[] =>
  [start, end].map((each) =>
    Temporal.Instant.fromEpochMilliseconds(each)
      .toZonedDateTimeISO(zone)
      .toString({ timeZoneName: 'never', smallestUnit: 'minute' }),
  );
const window = (kind: WindowKind, zone: string, text: string): string[] =>
  shown(windowAt(kind, zone, at(text)), zone);

/** Zones whose clocks are changed at unusual times or by unusual amounts, and ordinary ones. */
const ODD_ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/St_Johns',
  'America/Caracas',
  'America/Havana',
  'America/Sao_Paulo',
  'Asia/Kathmandu',
  'Asia/Pyongyang',
  'Asia/Beirut',
  'Africa/Casablanca',
  'Antarctica/Troll',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Chatham',
  'Pacific/Kwajalein',
];
const zones = fc.oneof(fc.constantFrom(...ODD_ZONES), fc.constantFrom(...Intl.supportedValuesOf('timeZone')));
const kinds = fc.constantFrom(...KINDS);
const EARLIEST = at('1990-01-01T00:00Z');
const instants = fc.integer({ min: EARLIEST, max: at('2100-01-01T00:00Z') });

/** Instants around the changes of a zone's clock, where the rules differ from plain arithmetic. */
const nearChange = fc
  .tuple(zones, instants, fc.integer({ min: -26 * HOUR_MS, max: 26 * HOUR_MS }))
  .map(([zone, instant, offset]) => {
    const zoned = Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(zone);
    const change = zoned.getTimeZoneTransition('previous')?.epochMilliseconds ?? instant;
    return { zone, instant: change + offset };
  })
  .filter(({ instant }) => instant >= EARLIEST);

function checkTiled(kind: WindowKind, zone: string, instant: number): void {
  const found = windowAt(kind, zone, instant);
  assert.ok(found.start <= instant && instant < found.end, 'it contains the instant');
  assert.deepEqual(windowAt(kind, zone, found.start), found, 'its first instant belongs to it');
  assert.deepEqual(windowAt(kind, zone, found.end - 1), found, 'its last instant belongs to it');
  assert.equal(windowAt(kind, zone, found.end).start, found.end, 'the next one begins where it ends');
  assert.equal(windowAt(kind, zone, found.start - 1).end, found.start, 'the one before ends where it begins');
}

test('windows contain their instant and follow each other without gap or overlap', () => {
  fc.assert(
    fc.property(kinds, zones, instants, (kind, zone, instant) => checkTiled(kind, zone, instant)),
    { numRuns: 300 },
  );
});

test('windows follow each other without gap or overlap around every change of the clock', () => {
  fc.assert(
    fc.property(kinds, nearChange, (kind, { zone, instant }) => checkTiled(kind, zone, instant)),
    { numRuns: 500 },
  );
});

test('an hour begins at a full local hour, and takes one hour unless the clock changes by a part of an hour', () => {
  const offsetAt = (zone: string, instant: number): number =>
    Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(zone).offsetNanoseconds / 1e6;
  fc.assert(
    fc.property(nearChange, ({ zone, instant }) => {
      const { start, end } = windowAt('hour', zone, instant);
      assert.equal(
        shown({ start, end }, zone).every((text) => text.slice(14, 16) === '00'),
        true,
      );
      const changed = Math.abs(offsetAt(zone, end) - offsetAt(zone, start)) % HOUR_MS;
      if (changed === 0) assert.equal(end - start, HOUR_MS);
      else assert.ok(end - start > 0 && end - start < 2 * HOUR_MS);
    }),
    { numRuns: 500 },
  );
});

test('a window of a zone whose offset never changes is the plain hour, day, week and month', () => {
  assert.deepEqual(window('hour', 'UTC', '2026-02-18T13:45:12.5Z'), [
    '2026-02-18T13:00+00:00',
    '2026-02-18T14:00+00:00',
  ]);
  assert.deepEqual(window('day', 'UTC', '2026-02-18T13:45Z'), [
    '2026-02-18T00:00+00:00',
    '2026-02-19T00:00+00:00',
  ]);
  assert.deepEqual(window('month', 'UTC', '2026-02-18T13:45Z'), [
    '2026-02-01T00:00+00:00',
    '2026-03-01T00:00+00:00',
  ]);
  assert.deepEqual(window('hour', 'Asia/Kathmandu', '2026-02-18T13:45Z'), [
    '2026-02-18T19:00+05:45',
    '2026-02-18T20:00+05:45',
  ]);
});

test('weeks begin on Monday', () => {
  const week = ['2026-02-16T00:00+01:00', '2026-02-23T00:00+01:00'];
  assert.deepEqual(window('week', 'Europe/Berlin', '2026-02-15T23:00Z'), week);
  assert.deepEqual(window('week', 'Europe/Berlin', '2026-02-22T22:59:59.999Z'), week);
});

test('a day with a change of the clock has 23 or 25 hours', () => {
  const spring = windowAt('day', 'Europe/Berlin', at('2026-03-29T10:00Z'));
  const autumn = windowAt('day', 'Europe/Berlin', at('2026-10-25T10:00Z'));
  assert.equal(spring.end - spring.start, 23 * HOUR_MS);
  assert.equal(autumn.end - autumn.start, 25 * HOUR_MS);
});

test('the hour that daylight saving repeats is two windows, and the one that it leaves out is none', () => {
  const first = window('hour', 'Europe/Berlin', '2026-10-25T00:30Z');
  const second = window('hour', 'Europe/Berlin', '2026-10-25T01:30Z');
  assert.deepEqual(first, ['2026-10-25T02:00+02:00', '2026-10-25T02:00+01:00']);
  assert.deepEqual(second, ['2026-10-25T02:00+01:00', '2026-10-25T03:00+01:00']);
  assert.deepEqual(window('hour', 'Europe/Berlin', '2026-03-29T00:59Z'), [
    '2026-03-29T01:00+01:00',
    '2026-03-29T03:00+02:00',
  ]);
});

test('where the clock changes by half an hour, that hour takes 90 minutes', () => {
  assert.deepEqual(window('hour', 'Australia/Lord_Howe', '2026-04-04T15:10Z'), [
    '2026-04-05T01:00+11:00',
    '2026-04-05T02:00+10:30',
  ]);
  assert.deepEqual(window('hour', 'Australia/Lord_Howe', '2026-10-03T15:30Z'), [
    '2026-10-04T01:00+10:30',
    '2026-10-04T03:00+11:00',
  ]);
});

test('a day without midnight begins where the clock goes on', () => {
  assert.deepEqual(window('day', 'Asia/Beirut', '2026-03-29T10:00Z'), [
    '2026-03-29T01:00+03:00',
    '2026-03-30T00:00+03:00',
  ]);
});

test('a day that has begun goes on when the clock is set back over midnight', () => {
  // At 00:01 of 7 November the clock of St. John's went back to 23:01 of the 6th.
  const sunday = ['2010-11-07T00:00-02:30', '2010-11-08T00:00-03:30'];
  assert.deepEqual(window('day', 'America/St_Johns', '2010-11-07T02:30:30Z'), sunday);
  assert.deepEqual(window('day', 'America/St_Johns', '2010-11-07T03:00Z'), sunday);
  assert.deepEqual(window('day', 'America/St_Johns', '2010-11-07T02:29:59Z'), [
    '2010-11-06T00:00-02:30',
    '2010-11-07T00:00-02:30',
  ]);
});

test('a date that a zone leaves out has no window', () => {
  assert.deepEqual(window('day', 'Pacific/Apia', '2011-12-30T09:59Z'), [
    '2011-12-29T00:00-10:00',
    '2011-12-31T00:00+14:00',
  ]);
});

test('names of time zones are told from anything else', () => {
  for (const name of ['UTC', 'Europe/Berlin', 'Australia/Lord_Howe', 'europe/berlin', 'Etc/GMT+5']) {
    assert.equal(isTimeZone(name), true, name);
    assert.doesNotThrow(() => windowAt('day', name, 0), name);
  }
  for (const name of [
    '',
    'Berlin',
    'Europe/Nowhere',
    '+02:00',
    '-0530',
    'local',
    '2026-01-01T00:00Z',
    'GMT+1',
    '1',
  ]) {
    assert.equal(isTimeZone(name), false, name);
  }
});
