import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backendInfo, EngineKit, FAILED, makeEntry, START, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { Fleet } from '../queue/fleet.ts';
import { jobPosition, predictStartMs } from './predict.ts';

const predict = (kit: EngineKit, id: string): number | undefined =>
  predictStartMs(kit.job(id), jobPosition(kit.job(id)), kit.now);

/** A kit with one measured job, and a backend whose slots are all in use. */
function measured(slots = 1, serviceMs = 1000): EngineKit {
  const kit = new EngineKit();
  kit.backend('b', { slots });
  kit.submit('seen');
  kit.accept('seen');
  kit.pass(serviceMs);
  kit.end('seen', SUCCESS);
  for (let n = 0; n < slots; n++) kit.submit(`runs${n}`);
  return kit;
}

test('the time until a backend takes a job is part of what the jobs behind it wait for', () => {
  const kit = new EngineKit();
  kit.backend('b', { slots: 1 });
  kit.submit('seen');
  kit.pass(400);
  kit.accept('seen');
  kit.pass(100);
  kit.end('seen', SUCCESS);
  kit.submit('runs');
  kit.submit('next');
  kit.submit('last');
  assert.equal((predict(kit, 'last') ?? 0) - (predict(kit, 'next') ?? 0), 500);
});

test('the position counts the ready jobs ahead in the lane, batch behind interactive', () => {
  const kit = measured();
  for (const id of ['a', 'b']) kit.submit(id);
  kit.submit('person', { priority: 'interactive' });
  kit.submit('elsewhere', { type: 'other' });
  const positions = ['person', 'a', 'b', 'elsewhere'].map((id) => jobPosition(kit.job(id)));
  assert.deepEqual(positions, [0, 1, 2, 0]);
});

test('a job that is not in a lane has no position', () => {
  const kit = measured();
  kit.submit('parked', { not_before: kit.now + 1000 });
  assert.equal(jobPosition(kit.job('parked')), undefined);
  assert.equal(jobPosition(kit.job('runs0')), undefined);
  assert.equal(jobPosition(kit.job('seen')), undefined);
});

test('[ORCH-16.1] the predicted start follows from the jobs ahead, the measured time and the slots', () => {
  const kit = measured();
  for (const id of ['a', 'b', 'c']) kit.submit(id);
  assert.deepEqual(
    ['a', 'b', 'c'].map((id) => predict(kit, id)),
    [1000, 2000, 3000],
  );
  const wide = measured(2);
  for (const id of ['a', 'b', 'c', 'd']) wide.submit(id);
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((id) => predict(wide, id)),
    [500, 1000, 1500, 2000],
  );
  const slow = measured(1, 7000);
  for (const id of ['a', 'b', 'c']) slow.submit(id);
  assert.deepEqual(
    ['a', 'b', 'c'].map((id) => predict(slow, id)),
    [7000, 14_000, 21_000],
  );
});

test('nothing is predicted without a measurement or without a backend that can run the job', () => {
  const kit = new EngineKit();
  kit.submit('nobody');
  assert.equal(predict(kit, 'nobody'), undefined);
  kit.backend('b');
  kit.submit('second');
  assert.equal(predict(kit, 'second'), undefined);
  const down = measured();
  down.submit('a');
  assert.equal(predict(down, 'a'), 1000);
  down.step({ type: 'reachable', name: 'b', up: false });
  assert.equal(predict(down, 'a'), undefined);
});

test('the prediction is exact for a job with a not_before and for a claimed one', () => {
  const kit = measured();
  kit.submit('parked', { not_before: kit.now + 700 });
  assert.equal(predict(kit, 'parked'), 700);
  assert.equal(predict(kit, 'runs0'), 0);
});

test('a job without a backend starts after the start of a worker, if its duration is known', () => {
  const kit = new EngineKit();
  for (const id of ['a', 'b']) kit.submit(id);
  const cold = (id: string) =>
    predictStartMs(kit.job(id), jobPosition(kit.job(id)), kit.now, { startMs: 20_000 });
  assert.deepEqual([cold('a'), cold('b')], [20_000, 20_000]);
  const seen = measured();
  seen.submit('a');
  seen.submit('b');
  seen.step({ type: 'reachable', name: 'b', up: false });
  const again = predictStartMs(seen.job('b'), jobPosition(seen.job('b')), seen.now, { startMs: 20_000 });
  assert.equal(again, 21_000);
  seen.backend('b', { types: ['other'] });
  const none = predictStartMs(seen.job('b'), jobPosition(seen.job('b')), seen.now, { startMs: 20_000 });
  assert.equal(none, 21_000, 'nor where no backend fits at all any more');
});

test('jobs of other lanes that go first on the same backend are counted', () => {
  const kit = measured();
  kit.submit('rival', { type: 'other' });
  kit.submit('a');
  kit.submit('late', { type: 'other' });
  assert.equal(predict(kit, 'a'), 2000);
  kit.submit('person', { type: 'other', priority: 'interactive' });
  assert.equal(predict(kit, 'a'), 3000);
});

test('a batch job waits longer the more interactive jobs arrive', () => {
  const quiet = measured(4);
  const lively = measured(4);
  // Thirty interactive jobs a minute of one second each, on four slots.
  for (let n = 0; n < 30; n++) {
    for (const kit of [quiet, lively]) kit.pass(2000);
    const id = `p${n}`;
    lively.submit(id, { priority: 'interactive', type: 't' });
    lively.cancel(id);
  }
  for (const kit of [quiet, lively]) for (const id of ['a', 'b']) kit.submit(id);
  assert.ok(predict(lively, 'b')! > 1.1 * predict(quiet, 'b')!);
});

test('no start is predicted before the backend is unblocked', () => {
  const kit = new EngineKit();
  kit.backend('b');
  kit.submit('seen');
  kit.accept('seen');
  kit.pass(10);
  kit.end('seen', SUCCESS);
  kit.submit('busy');
  kit.offered('busy', { is: 'busy', retryAfterMs: 5000 });
  kit.submit('a');
  assert.equal(predict(kit, 'a'), 5000);
});

test('a job that has run for most of its expected time is predicted to free its slot soon', () => {
  const predicted = (elapsed: number | undefined): number => {
    const fleet = new Fleet();
    fleet.put(backendInfo('b'));
    const entry = makeEntry(1);
    const lane = fleet.findOrCreateLane(entry.ask);
    entry.lane = lane;
    lane.batch.add(entry);
    for (let n = 0; n < 20; n++) lane.measured(900 + 10 * n);
    fleet.occupy('b', elapsed === undefined ? undefined : START - elapsed, 'batch');
    return predictStartMs(entry, jobPosition(entry), START)!;
  };
  assert.ok(predicted(0) > 900 && predicted(0) < 1100, String(predicted(0)));
  assert.ok(Math.abs(predicted(600) - 400) < 50, String(predicted(600)));
  assert.ok(predicted(5000) <= predicted(undefined));
  assert.ok(predicted(60_000) >= 50_000, 'what is unlike all others does not end soon');
  assert.ok(Math.abs(predicted(undefined) - 500) < 30, 'half of it where nobody knows since when');
});

const WAITING = fc.array(
  fc.record({
    agent: fc.constantFrom('a', 'a', 'a', 'b', 'c'),
    how: fc.constantFrom('new', 'new', 'new', 'retried', 'redriven'),
  }),
  { minLength: 70, maxLength: 200, size: 'max' },
);

test('the predicted start is the one that follows when the queue is worked off, redriven and retried jobs included', () => {
  fc.assert(
    fc.property(WAITING, (jobs) => {
      const kit = measured();
      for (const [at, { agent }] of jobs.entries()) kit.submit(`j${at}`, { agent });
      const ids = ['runs0', ...jobs.map((_, at) => `j${at}`)];
      const runs = (): string => ids.find((id) => kit.job(id).open !== undefined)!;
      for (const { how } of jobs) {
        const id = runs();
        // A job that was not taken goes back to its place, and so does one that has failed and is redriven.
        if (how === 'retried') kit.offered(id, { is: 'busy', retryAfterMs: 0 });
        if (how !== 'redriven') continue;
        kit.accept(id);
        kit.pass(1000);
        kit.end(id, FAILED);
        kit.redrive(id);
      }
      kit.accept(runs());
      const begun = kit.now;
      const waiting = ids.filter((id) => kit.job(id).isWaiting);
      const predicted = new Map(waiting.map((id) => [id, predict(kit, id)!]));
      const positions = new Map(waiting.map((id) => [id, jobPosition(kit.job(id))!]));
      for (let left = waiting.length; left > 0; left--) {
        kit.pass(1000);
        kit.end(runs(), SUCCESS);
        const next = runs();
        const off = (predicted.get(next)! - (kit.now - begun)) / 1000;
        // Agents with the same charge may go in any order.
        assert.ok(Math.abs(off) <= 4, `${next} at ${positions.get(next)} was predicted ${off} s too late`);
        assert.ok(Math.abs(positions.get(next)! - (waiting.length - left)) <= 4, `the place of ${next}`);
        kit.accept(next);
      }
    }),
    { numRuns: 20 },
  );
});
