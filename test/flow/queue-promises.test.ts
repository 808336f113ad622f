/** What the queue promises, checked over hours of a virtual clock. A seat is a backend with one slot, a person an interactive job. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type Fields, START } from '../fakes/engine-kit.ts';
import { arrivals, Seats, type Start } from './seats.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const isBatch = ({ id }: Start): boolean => id.startsWith('batch');

describe('one seat, jobs of 10 s, 2,000 batch jobs at the start, a person every minute for 4 h', () => {
  const seats = new Seats([{}], 10 * SECOND);
  const people = arrivals(240, 'person', START + 1, MINUTE, { priority: 'interactive' });
  seats.run([...arrivals(2000, 'batch', START, 0), ...people], START + 4 * HOUR);
  const { starts } = seats;
  const arrivedAt = new Map(people.map(({ id, at }) => [id, at]));

  test('no batch job is picked between the arrival of a person and their start', () => {
    for (const person of starts.filter((start) => !isBatch(start))) {
      const arrived = arrivedAt.get(person.id)!;
      const between = starts.filter((start) => isBatch(start) && start.at > arrived && start.at < person.at);
      assert.deepEqual(between, [], person.id);
      assert.ok(person.at - arrived <= 10 * SECOND, 'nobody waits for more than the job that runs');
    }
    assert.equal(starts.filter((start) => !isBatch(start)).length, 240);
  });

  test('batch gets everything that people leave, in order', () => {
    const batch = starts.filter(isBatch).map(({ id }) => id);
    assert.deepEqual(
      batch,
      batch.map((_, n) => `batch${n}`),
    );
    assert.equal(starts.length, (4 * HOUR) / (10 * SECOND) + 1, 'the seat is never empty');
  });
});

describe('people who could fill the seat alone', () => {
  const seats = new Seats([{}], 10 * SECOND);
  const people = arrivals(3000, 'person', START, 5 * SECOND, { priority: 'interactive' });
  seats.run([...people, ...arrivals(500, 'batch', START, 0)], START + 3 * HOUR);
  const { starts } = seats;

  test('leave nothing to batch until it has waited 300 s', () => {
    const first = starts.find(isBatch)!;
    assert.ok(first.at >= START + 300 * SECOND, `first batch start after ${first.at - START} ms`);
    assert.ok(first.at <= START + 310 * SECOND);
  });

  test('and from then on leave it exactly one start in ten', () => {
    const since = starts.slice(starts.findIndex(isBatch));
    assert.ok(since.length > 900);
    for (let from = 0; from + 10 <= since.length; from++) {
      assert.equal(since.slice(from, from + 10).filter(isBatch).length, 1, `starts from ${from}`);
    }
  });

  test('each class in the order in which it came', () => {
    for (const name of ['batch', 'person']) {
      const order = starts
        .filter(({ id }) => id.startsWith(name))
        .map(({ id }) => Number(id.slice(name.length)));
      assert.deepEqual(
        order,
        order.map((_, n) => n),
      );
    }
  });
});

test('[ORCH-1021] interactive goes before batch in the same queue, but for the share of batch that has aged', () => {
  const kinds = fc.array(fc.record({ gap: fc.integer({ min: 0, max: 30 }), person: fc.boolean() }), {
    minLength: 20,
    maxLength: 200,
    size: 'max',
  });
  fc.assert(
    fc.property(kinds, (jobs) => {
      let at = START;
      const coming = jobs.map(({ gap, person }, n) => {
        at += gap * SECOND;
        const fields: Fields = { priority: person ? 'interactive' : 'batch' };
        return { at, id: `${person ? 'person' : 'batch'}${n}`, fields };
      });
      const seats = new Seats([{}], 20 * SECOND);
      seats.run(coming, START + 10 * HOUR);
      assert.equal(seats.starts.length, jobs.length, 'all of them were served');
      checkOrder(seats.starts, new Map(coming.map((job) => [job.id, job.at])));
    }),
    { numRuns: 100 },
  );
});

test('[ORCH-1021] interactive goes before batch also where they are of different types', () => {
  const seats = new Seats([{}], 10 * SECOND);
  const batch = arrivals(20, 'batch', START, 0, { type: 'other' });
  seats.run([...batch, ...arrivals(10, 'person', START + 1, 0, { priority: 'interactive' })], START + HOUR);
  // The first one was alone when it came.
  assert.deepEqual(seats.starts.map(isBatch), [true, ...Array(10).fill(false), ...Array(19).fill(true)]);
});

/** A batch job may start while a person waits only if it has aged and nine people have gone before it. */
function checkOrder(starts: readonly Start[], arrivedAt: ReadonlyMap<string, number>): void {
  const waits = (from: number, before: number): Start[] =>
    starts.slice(from).filter(({ id }) => arrivedAt.get(id)! < before);
  let passedOver = 0;
  for (const [n, start] of starts.entries()) {
    const others = waits(n + 1, start.at);
    if (!isBatch(start)) {
      if (others.some(isBatch)) passedOver++;
      continue;
    }
    if (others.some((other) => !isBatch(other))) {
      assert.ok(start.at - arrivedAt.get(start.id)! >= 300 * SECOND, `${start.id} had not aged`);
      assert.ok(passedOver >= 9, `${start.id} went after ${passedOver} people`);
    }
    passedOver = 0;
  }
}

describe('fairness', () => {
  test('[ORCH-1022] B submits 10 jobs while A has 10,000 waiting: all of them start within the next 20 starts', () => {
    const seats = new Seats([{}], SECOND);
    seats.run(arrivals(10_000, 'a', START, 0, { agent: 'A' }), START + 100 * SECOND);
    const before = seats.starts.length;
    seats.run(arrivals(10, 'b', START + 100 * SECOND + 1, 0, { agent: 'B' }), START + 200 * SECOND);
    const next = seats.starts.slice(before, before + 20).map(({ id }) => id);
    assert.equal(next.filter((id) => id.startsWith('b')).length, 10, next.join(' '));
  });

  test('so do the jobs of another tenant, whatever its agent is called', () => {
    const seats = new Seats([{}], SECOND);
    const theirs = { agent: 'agent', tenant: 'large' };
    seats.run(arrivals(10_000, 'a', START, 0, theirs), START + 100 * SECOND);
    const before = seats.starts.length;
    const ours = { agent: 'agent', tenant: 'small' };
    seats.run(arrivals(10, 'b', START + 100 * SECOND + 1, 0, ours), START + 200 * SECOND);
    const next = seats.starts.slice(before, before + 20).map(({ id }) => id);
    assert.equal(next.filter((id) => id.startsWith('small~')).length, 10, next.join(' '));
  });
});

test('[ORCH-1022] within a class first come, first served; aged batch work is never starved', () => {
  // The people's jobs have the type 't': batch shares their lane in the first run, and has a lane of its own in the second.
  for (const type of ['t', 'other']) {
    const seats = new Seats([{}], 10 * SECOND);
    const people = arrivals(3000, 'person', START, 5 * SECOND, { priority: 'interactive' });
    seats.run([...people, ...arrivals(200, 'batch', START, 0, { type })], START + 3 * HOUR);
    for (const name of ['batch', 'person']) {
      const order = seats.starts
        .filter(({ id }) => id.startsWith(name))
        .map(({ id }) => Number(id.slice(name.length)));
      assert.deepEqual(
        order,
        order.map((_, n) => n),
        'first come, first served',
      );
    }
    const aged = seats.starts.filter(({ at }) => at >= START + 310 * SECOND);
    const share = aged.filter(isBatch).length / aged.length;
    assert.ok(
      share >= 0.099,
      `batch of type ${type} got ${aged.filter(isBatch).length} of ${aged.length} starts`,
    );
  }
});
