import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Demand } from './demand.ts';
import { type PoolNeed, shouldKeepWarm, wantedWorkers } from './prewarm.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONDAY = 4 * DAY;

/** A request every `everyMs` from 9 to 17, on three days. */
function officeDays(everyMs: number, serviceMs: number): Demand {
  const demand = new Demand();
  demand.forecast(MONDAY, HOUR);
  for (let day = 0; day < 3; day++) {
    for (let at = 9 * HOUR; at < 17 * HOUR; at += everyMs) demand.arrived(MONDAY + day * DAY + at);
  }
  demand.served(serviceMs);
  return demand;
}

const THURSDAY = MONDAY + 3 * DAY;

const need = (demand: Demand, fields: Partial<PoolNeed> = {}): PoolNeed => ({
  demand,
  slotsPerWorker: 4,
  startMs: 20_000,
  targetUtilisation: 0.5,
  min: 0,
  max: 10,
  ...fields,
});

test('[ORCH-16.2] wantedWorkers gives the workers that the usual load of the hour needs, ahead of time', () => {
  // Two requests per second of ten seconds each keep twenty slots busy; of four slots two are meant to be busy.
  const demand = officeDays(500, 10_000);
  const at = (hours: number, fields?: Partial<PoolNeed>) =>
    wantedWorkers(need(demand, fields), THURSDAY + hours * HOUR);
  assert.deepEqual(at(3), { workers: 0, reason: 'nothing-expected' });
  const early = at(8 + 59 / 60);
  assert.ok(early.workers >= 2 && early.reason === 'load', JSON.stringify(early));
  // The longer a worker takes to start, the earlier it is ordered.
  const [quick, slow] = [20_000, 30 * MINUTE].map((startMs) => at(8.25, { startMs }).workers);
  assert.ok(quick === 0 && slow! >= 2, `${quick} and ${slow} workers at a quarter past eight`);
  for (let ms = 9 * HOUR; ms < 10 * HOUR; ms += 500) demand.arrived(THURSDAY + ms);
  assert.deepEqual(at(10), { workers: 10, reason: 'load' });
  assert.deepEqual(at(10, { max: 6 }), { workers: 6, reason: 'max' });
  assert.deepEqual(at(10, { targetUtilisation: 1 }), { workers: 5, reason: 'load' });
  assert.deepEqual(at(10, { serviceMs: 1000 }), { workers: 1, reason: 'arrivals-expected' });
  assert.deepEqual(at(27, { min: 2 }), { workers: 2, reason: 'min' });
});

test('workers that are needed again within idleMs are kept', () => {
  const demand = officeDays(500, 10_000);
  const before = THURSDAY + 8.7 * HOUR;
  const small = wantedWorkers(need(demand), before);
  const held = wantedWorkers(need(demand, { current: 8, idleMs: HOUR }), before);
  assert.ok(small.workers < held.workers, JSON.stringify([small, held]));
  assert.equal(held.reason, 'needed-again-soon');
  assert.ok(held.workers <= 8, 'it is no reason to grow');
  const night = THURSDAY + 20 * HOUR;
  const idle = wantedWorkers(need(demand, { current: 8, idleSince: night - HOUR }), night);
  assert.deepEqual(idle, { workers: 0, reason: 'nothing-expected' });
});

test('one worker is kept, or started, when an arrival is expected within idleMs', () => {
  const demand = officeDays(10 * MINUTE, 1000);
  const keep = (hours: number, idleSince?: number) =>
    shouldKeepWarm(demand, THURSDAY + hours * HOUR, idleSince, { idleMs: 10 * MINUTE });
  assert.deepEqual([keep(3).keep, keep(3).reason], [false, 'nothing-expected']);
  assert.deepEqual([keep(9.1).keep, keep(9.1).reason], [true, 'arrivals-expected']);
  const justUsed = THURSDAY + 3 * HOUR - 9 * MINUTE;
  assert.deepEqual([keep(3, justUsed).keep, keep(3, justUsed).reason], [true, 'recently-used']);
  assert.equal(keep(3, justUsed - 2 * MINUTE).keep, false);
});

test('the threshold of expected arrivals is configurable', () => {
  const demand = officeDays(30 * MINUTE, 1000);
  const now = THURSDAY + 9.25 * HOUR;
  const keep = (threshold: number) => shouldKeepWarm(demand, now, undefined, { threshold }).keep;
  assert.deepEqual([keep(0.05), keep(0.9)], [true, false]);
});

test('a busy worker is always kept', () => {
  const demand = new Demand();
  const busy = wantedWorkers(need(demand, { current: 1 }), MONDAY);
  assert.deepEqual(busy, { workers: 1, reason: 'recently-used' });
});
