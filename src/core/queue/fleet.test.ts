import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backendInfo, makeEntry } from '../../../test/fakes/engine-kit.ts';
import { fits } from './fits.ts';
import type { Lane } from './fleet.ts';
import { Fleet } from './fleet.ts';
import type { Need, NeedSource } from './lane.ts';

const NEED: Need = { kind: undefined, type: 't', model: undefined, labels: undefined };
/** A job that needs nothing but its type. */
const ofType = (type: string): NeedSource => makeEntry(1, { type }).ask;

test('a backend fits when it has the kind, the type, the model and every label', () => {
  const info = backendInfo('b', { kind: 'k', types: ['t'], models: ['m'], labels: { gpu: 'a', site: 'x' } });
  const cases: [need: Partial<Need>, fits: boolean][] = [
    [{}, true],
    [{ kind: 'k' }, true],
    [{ kind: 'other' }, false],
    [{ type: 'other' }, false],
    [{ model: 'm' }, true],
    [{ model: 'other' }, false],
    [{ labels: { gpu: 'a' } }, true],
    [{ labels: { gpu: 'a', site: 'y' } }, false],
    [{ labels: { rack: '1' } }, false],
  ];
  for (const [need, expected] of cases) assert.equal(fits({ ...NEED, ...need }, info), expected);
  assert.equal(fits({ ...NEED, type: 'anything' }, backendInfo('any')), true);
  assert.equal(fits({ ...NEED, model: 'm' }, backendInfo('no models')), false);
});

test('slots in use follow the attempts, also those of a backend that is not registered', () => {
  const fleet = new Fleet();
  fleet.occupy('b');
  fleet.put(backendInfo('b', { slots: 2 }));
  assert.equal(fleet.backends.get('b')!.used, 1);
  fleet.occupy('b');
  assert.equal(fleet.backends.get('b')!.free, false);
  fleet.vacate('b');
  assert.equal(fleet.backends.get('b')!.free, true);
  fleet.vacate('b');
  assert.equal(fleet.usedSlots('b'), 0);
});

test('a backend that is down or blocked gets no jobs until it is up, or the block ends', () => {
  const fleet = new Fleet();
  fleet.put(backendInfo('b'));
  const { free: atFirst } = fleet.backends.get('b')!;
  fleet.block('b', 100);
  assert.equal(fleet.nextUnblock(), 100);
  fleet.unblock(99);
  const { free: whileBlocked } = fleet.backends.get('b')!;
  fleet.unblock(100);
  const { free: afterwards } = fleet.backends.get('b')!;
  fleet.setUp('b', false);
  const { free: whileDown } = fleet.backends.get('b')!;
  fleet.setUp('b', true);
  assert.deepEqual([atFirst, whileBlocked, afterwards, whileDown], [true, false, true, false]);
  assert.equal(fleet.backends.get('b')!.free, true);
  assert.equal(fleet.nextUnblock(), Number.POSITIVE_INFINITY);
});

test('calls for an unknown backend are ignored', () => {
  const fleet = new Fleet();
  fleet.setUp('x', false);
  fleet.block('x', 5);
  assert.equal(fleet.nextUnblock(), Number.POSITIVE_INFINITY);
});

test('an empty lane keeps its measurements, and empty lanes do not pile up', () => {
  const fleet = new Fleet();
  fleet.put(backendInfo('b'));
  fleet.findOrCreateLane(ofType('t')).measured(7);
  assert.equal(fleet.findOrCreateLane(ofType('t')).serviceMs, 7);
  const full = fleet.findOrCreateLane(ofType('waiting'));
  full.queueOf('batch').add(makeEntry(1, { type: 'waiting' }));
  for (let i = 0; i < 5000; i++) fleet.findOrCreateLane(ofType(`t${i}`));
  assert.ok(fleet.lanes.size <= 1001, String(fleet.lanes.size));
  assert.ok(fleet.backends.get('b')!.lanes.length <= 1001);
  assert.equal(fleet.findOrCreateLane(ofType('waiting')), full);
});

/** The expected counters of a lane, from a fresh count. */
function checkLane(fleet: Fleet, lane: Lane): void {
  const fitting = [...fleet.backends.values()].filter(({ info }) => fits(lane.need, info));
  const free = fitting.filter((backend) => {
    const { up, blockedUntil, used, info } = backend;
    return up && blockedUntil === 0 && used < info.slots;
  });
  assert.deepEqual(new Set(lane.backends), new Set(fitting));
  assert.equal(lane.backends.length, fitting.length);
  assert.equal(lane.freeBackends, free.length);
  assert.equal(fleet.runnable.has(lane), free.length > 0 && lane.size > 0);
}

test('after any events a lane counts exactly its free backends, and is runnable accordingly', () => {
  const commands = fc.array(
    fc.record({
      op: fc.constantFrom('put', 'up', 'down', 'block', 'unblock', 'occupy', 'vacate', 'job', 'nojob'),
      name: fc.constantFrom('a', 'b', 'c'),
      types: fc.constantFrom(undefined, ['t'], ['u'], ['t', 'u']),
      slots: fc.integer({ min: 1, max: 3 }),
      need: fc.constantFrom('t', 'u', 'v'),
      at: fc.nat({ max: 10 }),
    }),
    { maxLength: 100, size: 'max' },
  );
  fc.assert(
    fc.property(commands, (steps) => {
      const fleet = new Fleet();
      const used = new Map<string, number>();
      const jobs = new Map<string, ReturnType<typeof makeEntry>[]>();
      for (const [n, { op, name, types, slots, need, at }] of steps.entries()) {
        if (op === 'put') fleet.put(backendInfo(name, { types, slots }));
        else if (op === 'up' || op === 'down') fleet.setUp(name, op === 'up');
        else if (op === 'block') fleet.block(name, at + 1);
        else if (op === 'unblock') fleet.unblock(at);
        else if (op === 'occupy') {
          fleet.occupy(name);
          used.set(name, (used.get(name) ?? 0) + 1);
        } else if (op === 'vacate' && (used.get(name) ?? 0) > 0) {
          fleet.vacate(name);
          used.set(name, used.get(name)! - 1);
        } else if (op === 'job' || op === 'nojob') {
          const lane = fleet.findOrCreateLane(ofType(need));
          const waiting = jobs.get(need) ?? [];
          jobs.set(need, waiting);
          const last = waiting.pop();
          if (op === 'job') {
            const entry = makeEntry(n + 1, { type: need });
            waiting.push(...(last ? [last] : []), entry);
            lane.queueOf('batch').add(entry);
          } else if (last) lane.queueOf('batch').remove(last);
          fleet.updateLane(lane);
        }
        for (const lane of fleet.lanes.values()) checkLane(fleet, lane);
        for (const [backend, count] of used) assert.equal(fleet.usedSlots(backend), count);
      }
    }),
    { numRuns: 100 },
  );
});
