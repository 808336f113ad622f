import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Demand, type DemandPattern } from './demand.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** A Monday. */
const MONDAY = 4 * DAY;

const isNear = (value: number, expected: number, share = 0.1): boolean =>
  Math.abs(value - expected) <= share * expected;

/** One request every five minutes from 9 to 17, on each of the given days. */
function officeDays(days: number, from = MONDAY): Demand {
  const demand = new Demand();
  demand.forecast(from, HOUR);
  for (let day = 0; day < days; day++) {
    for (let at = 9 * HOUR; at < 17 * HOUR; at += 5 * MINUTE) demand.arrived(from + day * DAY + at);
  }
  demand.forecast(from + days * DAY, HOUR);
  return demand;
}

test('a steady stream is expected to continue before any pattern was learned', () => {
  const demand = new Demand();
  assert.deepEqual(demand.forecast(MONDAY, HOUR), {
    arrivals: 0,
    perSec: 0,
    peakPerSec: 0,
    reason: 'nothing-seen',
  });
  for (let at = 0; at < 20 * MINUTE; at += 2000) demand.arrived(MONDAY + at);
  const forecast = demand.forecast(MONDAY + 20 * MINUTE, 10 * MINUTE);
  assert.ok(isNear(forecast.perSec, 0.5) && isNear(forecast.arrivals, 300), JSON.stringify(forecast));
});

test('[ORCH-16.2] the pattern of one day is expected on the next, before its first request', () => {
  const demand = officeDays(2);
  const at = (hours: number) => demand.forecast(MONDAY + 2 * DAY + hours * HOUR, 30 * MINUTE);
  assert.ok(at(3).arrivals < 0.05, 'nothing at night');
  const morning = at(8.75);
  assert.ok(morning.arrivals > 2.5 && morning.reason === 'pattern', JSON.stringify(morning));
});

test('weekends are learned separately, and are used for working days until one was observed', () => {
  const demand = officeDays(5);
  const saturday = MONDAY + 5 * DAY;
  assert.ok(demand.forecast(saturday + 10 * HOUR, HOUR).arrivals > 5, 'never seen: like any day');
  const seen = officeDays(5);
  for (let at = saturday; at < saturday + 2 * DAY; at += HOUR) seen.forecast(at, HOUR);
  assert.ok(seen.forecast(saturday + 7 * DAY + 10 * HOUR, HOUR).arrivals < 0.5, 'a quiet Saturday was seen');
});

test('the departure of the last minutes is added to the pattern, and fades further ahead', () => {
  const demand = officeDays(3);
  const night = MONDAY + 3 * DAY + 2 * HOUR;
  for (let at = 0; at < 10 * MINUTE; at += 5000) demand.arrived(night + at);
  const now = night + 10 * MINUTE;
  const soon = demand.forecast(now, 5 * MINUTE);
  assert.ok(soon.perSec > 0.1 && soon.reason === 'pattern+recent', JSON.stringify(soon));
  const later = demand.forecast(now, 2 * HOUR);
  assert.ok(later.perSec < soon.perSec / 3, JSON.stringify(later));
});

test('a gap in a thin stream changes nothing, a silent morning breaks the pattern', () => {
  const demand = officeDays(4);
  const friday = MONDAY + 4 * DAY;
  const expected = (hours: number) => demand.forecast(friday + hours * HOUR, 10 * MINUTE);
  assert.ok(expected(9.25).arrivals > 1, 'a quarter of an hour late');
  const noon = expected(12);
  assert.equal(noon.reason, 'pattern-broken');
  assert.ok(noon.arrivals < 0.1);
  demand.arrived(friday + 12 * HOUR);
  assert.ok(expected(12.05).arrivals > 1, 'the first request brings it back');
});

test('the demand survives a restart as a small record, and the downtime does not count as silence', () => {
  const before = officeDays(4);
  before.served(1234);
  const text = JSON.stringify(before.toRecord(MONDAY + 4 * DAY));
  assert.ok(text.length < 4096, `${text.length} bytes`);
  const after = Demand.fromRecord(JSON.parse(text) as DemandPattern);
  assert.equal(after.serviceMs, 1234);
  for (const hours of [3, 8.75, 12]) {
    const now = MONDAY + 7 * DAY + hours * HOUR;
    const fresh = Demand.fromRecord(JSON.parse(text) as DemandPattern);
    const { arrivals } = fresh.forecast(now, HOUR);
    assert.ok(hours === 3 ? arrivals < 0.1 : arrivals > 8, `${hours}: ${arrivals}`);
  }
});

test('for any arrivals the forecast is made of numbers from 0 up', () => {
  const steps = fc.array(
    fc.tuple(fc.integer({ min: -HOUR, max: 20 * DAY }), fc.integer({ min: 0, max: 50 })),
    {
      maxLength: 30,
    },
  );
  fc.assert(
    fc.property(steps, fc.integer({ min: 0, max: 3 * DAY }), (jumps, horizon) => {
      let demand = new Demand();
      let now = MONDAY;
      for (const [jump, weight] of jumps) {
        now += jump;
        demand.arrived(now, weight);
        demand.served(weight);
        const { arrivals, perSec, peakPerSec } = demand.forecast(now, horizon);
        for (const value of [arrivals, perSec, peakPerSec]) assert.ok(Number.isFinite(value) && value >= 0);
        if (weight === 7) demand = Demand.fromRecord(demand.toRecord(now));
      }
    }),
  );
});
