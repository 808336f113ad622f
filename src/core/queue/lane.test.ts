import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { makeEntry } from '../../../test/fakes/engine-kit.ts';
import type { JobClass } from '../../model/records.ts';
import { Lane } from './fleet.ts';
import { laneKey, type Need } from './lane.ts';

const POLICY = { batchMaxWaitMs: 1000, batchShare: 10 };
const NEED: Need = { kind: undefined, type: 't', model: undefined, labels: undefined };

let n = 0;
function put(lane: Lane, jobClass: JobClass, readyAt: number): void {
  const entry = makeEntry(++n, { priority: jobClass });
  entry.readyAt = readyAt;
  lane.queueOf(jobClass).add(entry);
}

function pick(lane: Lane, now: number): JobClass | undefined {
  return lane.take(lane.nextClass(POLICY, now))?.ask.spec.priority;
}

test('interactive goes before batch while no batch job has waited too long', () => {
  const lane = new Lane('l', NEED);
  for (let i = 0; i < 5; i++) put(lane, 'batch', 0);
  for (let i = 0; i < 50; i++) put(lane, 'interactive', 0);
  const picks = Array.from({ length: 55 }, () => pick(lane, 999));
  assert.deepEqual(picks, [...Array(50).fill('interactive'), ...Array(5).fill('batch')]);
  assert.equal(pick(lane, 999), undefined);
});

test('an aged batch queue gets exactly one pick in ten while interactive jobs keep arriving', () => {
  const lane = new Lane('l', NEED);
  for (let i = 0; i < 100; i++) put(lane, 'batch', 0);
  for (let i = 0; i < 1000; i++) put(lane, 'interactive', 0);
  const picks = Array.from({ length: 500 }, () => pick(lane, 1000));
  for (let from = 0; from + 10 <= picks.length; from++) {
    const batch = picks.slice(from, from + 10).filter((each) => each === 'batch').length;
    assert.equal(batch, 1, `picks ${from} to ${from + 9}`);
  }
});

test('for any arrivals: interactive first except for the batch share, and aged batch never waits for ten picks', () => {
  const commands = fc.array(
    fc.record({
      op: fc.constantFrom('batch', 'interactive', 'pick', 'pick'),
      ms: fc.integer({ min: 0, max: 400 }),
    }),
    { maxLength: 300, size: 'max' },
  );
  fc.assert(
    fc.property(commands, (steps) => {
      const lane = new Lane('l', NEED);
      let now = 0;
      let passedOver = 0;
      for (const { op, ms } of steps) {
        now += ms;
        if (op !== 'pick') {
          put(lane, op as JobClass, now);
          continue;
        }
        const { interactive, batch } = lane;
        const bothWait = interactive.size > 0 && batch.size > 0;
        const isAged = batch.size > 0 && now - batch.oldest()!.readyAt >= POLICY.batchMaxWaitMs;
        const turn = lane.nextClass(POLICY, now);
        const taken = lane.take(turn)?.ask.spec.priority;
        if (bothWait) {
          const owed = isAged && passedOver >= POLICY.batchShare - 1;
          assert.equal(taken, owed ? 'batch' : 'interactive');
          assert.equal(turn.reason, owed ? 'batch-share' : 'interactive-first');
        }
        if (taken === 'batch') passedOver = 0;
        else if (bothWait) passedOver++;
      }
    }),
  );
});

test('the position of a batch job counts the interactive ones before it', () => {
  const lane = new Lane('l', NEED);
  for (let i = 0; i < 3; i++) put(lane, 'batch', 0);
  for (let i = 0; i < 4; i++) put(lane, 'interactive', 0);
  assert.equal(lane.positionOf(lane.batch.oldest()!), 4);
  assert.equal(lane.positionOf(lane.interactive.oldest()!), 0);
});

test('the measured service time follows new measurements without jumping to each', () => {
  const lane = new Lane('l', NEED);
  assert.equal(lane.serviceMs, undefined);
  lane.measured(100);
  assert.equal(lane.serviceMs, 100);
  lane.measured(200, 'interactive');
  assert.equal(lane.serviceMs, 150, 'both classes count');
  for (let i = 0; i < 500; i++) lane.measured(200);
  assert.ok(lane.serviceMs! > 199 && lane.serviceMs! <= 200);
});

describe('the key of a lane', () => {
  const keyOf = ({ kind: backend, ...rest }: Need): string => laneKey(makeEntry(1, { backend, ...rest }).ask);
  const optional = fc.option(fc.constantFrom<string[]>('a', 'b', 'a/b'), { nil: undefined });
  const text = fc.oneof(fc.constantFrom('x', 'y', 'x\nb=y', '', '='), fc.string({ maxLength: 4 }));
  const labels = fc.option(fc.dictionary(fc.constantFrom('a', 'b', 'c'), text, { maxKeys: 3 }), {
    nil: undefined,
  });
  const need = fc.record({
    kind: optional,
    type: fc.constantFrom<string[]>('t', 'u'),
    model: optional,
    labels,
  });

  test('is the same for needs that differ only in the order of their labels', () => {
    fc.assert(
      fc.property(need, (each) => {
        const reversed = each.labels && Object.fromEntries(Object.entries(each.labels).reverse());
        assert.equal(keyOf({ ...each, labels: reversed }), keyOf(each));
      }),
    );
  });

  test('differs for every other need', () => {
    const canonical = ({ kind, type, model, labels: all }: Need): string =>
      JSON.stringify([kind ?? '', type, model ?? '', Object.entries(all ?? {}).sort()]);
    fc.assert(
      fc.property(need, need, (a, b) => {
        assert.equal(keyOf(a) === keyOf(b), canonical(a) === canonical(b));
      }),
      // A label's value is free text: it may look like another label.
      {
        examples: [
          [
            { ...NEED, labels: {} },
            { ...NEED, labels: undefined },
          ],
          [
            { ...NEED, labels: { a: 'x\nb=y' } },
            { ...NEED, labels: { a: 'x', b: 'y' } },
          ],
        ],
      },
    );
  });
});
