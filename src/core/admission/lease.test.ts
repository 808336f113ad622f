import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, refusal } from '../../../test/fakes/engine-kit.ts';
import { OrchdError } from '../../model/errors.ts';
import type { EngineEvent } from '../engine/areas.ts';
import { explain } from '../scheduling/explain.ts';
import type { HeldLease } from '../state/leases.ts';

const TTL = 9000;
const DEVICES = [
  { index: 0, memoryMb: 1000 },
  { index: 1, memoryMb: 3000 },
];

class Desk extends EngineKit {
  #made = 0;

  ask(event: EngineEvent): HeldLease {
    const { reply } = this.step(event);
    if (reply instanceof Error) throw reply;
    return reply as HeldLease;
  }

  grant(minMemoryMb = 0, tenant = 'default'): HeldLease {
    const token = `t${++this.#made}`;
    return this.ask({ type: 'lease', request: { token, tenant, agent: 'a', minMemoryMb, ttlMs: TTL } });
  }

  beat(lease: string, tenant = 'default'): HeldLease {
    return this.ask({ type: 'heartbeat', lease, tenant });
  }

  release(lease: string, tenant = 'default'): HeldLease {
    return this.ask({ type: 'release', lease, tenant });
  }
}

const notHeld = refusal('LEASE_NOT_HELD');

test('on a full disk events that add records are refused, and those that end something pass', () => {
  const desk = new Desk({ devices: DEVICES });
  const [kept, given] = [desk.grant(), desk.grant()];
  desk.submit('waits');
  desk.step({ type: 'space', full: true });
  const adding: EngineEvent[] = [
    { type: 'lease', request: { token: 'new', tenant: 'default', agent: 'a', minMemoryMb: 0, ttlMs: TTL } },
    { type: 'budget', tenant: 'default', id: 's', tokenBudget: 5 },
    { type: 'limits', limits: [], by: 'op' },
    { type: 'redrive', uid: 'waits', by: 'op', known: undefined },
  ];
  for (const event of adding) {
    const { reply, changes } = desk.step(event);
    assert.ok(reply instanceof OrchdError && reply.code === 'STORE_FULL', event.type);
    assert.deepEqual(changes, []);
  }
  desk.beat(kept.id);
  desk.release(given.id);
  desk.cancel('waits');
  assert.equal(desk.state('waits'), 'cancelled');
});

test('the device with the most free memory is granted, the CPU if none has enough, and fences grow', () => {
  const desk = new Desk({ devices: DEVICES });
  const memories = [2000, 900, 900, 900, 100, 0, 0];
  const leases = memories.map((memory) => desk.grant(memory));
  assert.deepEqual(
    leases.map(({ record }) => record.gpuIndex),
    [1, 0, 1, undefined, 0, 1, 1],
  );
  for (const [at, lease] of leases.entries())
    assert.ok(at === 0 || lease.record.fence > (leases[at - 1] as HeldLease).record.fence);
  desk.release('t1');
  assert.equal(desk.grant(2000).record.gpuIndex, 1, 'what was given back is lent again');
});

test('a repeated request with one token is granted once; the token of another tenant is refused', () => {
  const desk = new Desk({ devices: DEVICES });
  const request = { token: 'mine', tenant: 'default', agent: 'a', minMemoryMb: 800, ttlMs: TTL };
  const first = desk.ask({ type: 'lease', request });
  assert.deepEqual(desk.ask({ type: 'lease', request }), first);
  assert.equal(desk.engine.state.leases.size, 1);
  assert.throws(() => desk.ask({ type: 'lease', request: { ...request, tenant: 'other' } }), notHeld);
});

test('a heartbeat extends the lease, is written only after a third of its time, and fails after its expiry', () => {
  const desk = new Desk();
  desk.grant();
  const before = desk.log.length;
  desk.now += TTL / 3 - 1;
  assert.equal(desk.beat('t1').until, desk.now + TTL);
  assert.equal(desk.log.length, before, 'it is kept in memory');
  desk.now += 1;
  desk.beat('t1');
  assert.deepEqual(
    desk.log.slice(before).map(({ change }) => [change.kind, change.cause]),
    [['lease', 'heartbeat']],
  );
  const end = desk.now + TTL;
  for (; desk.now < end + 3 * TTL; desk.pass(TTL - 1)) assert.equal(desk.beat('t1').until, desk.now + TTL);
  desk.pass(TTL - 1);
  assert.equal(desk.engine.state.leases.size, 0);
  assert.equal(desk.log.at(-1)?.change.cause, 'expired');
  assert.throws(() => desk.beat('t1'), notHeld);
});

test('an expired lease is not held even before a tick has removed it', () => {
  const desk = new Desk();
  desk.grant();
  desk.now += TTL;
  assert.throws(() => desk.beat('t1'), notHeld);
  assert.throws(() => desk.release('t1'), notHeld);
});

test('unknown or released tokens, and those of another tenant, are not held', () => {
  const desk = new Desk();
  desk.grant();
  assert.throws(() => desk.beat('nobody'), notHeld);
  assert.throws(() => desk.beat('t1', 'other'), notHeld);
  assert.throws(() => desk.release('t1', 'other'), notHeld);
  desk.release('t1');
  assert.throws(() => desk.beat('t1'), notHeld);
  assert.throws(() => desk.release('t1'), notHeld);
});

test('after a change of leader each lease has its full time again', () => {
  const desk = new Desk();
  desk.grant();
  desk.now += TTL - 1;
  desk.step({ type: 'open', owner: 'next' });
  desk.pass(TTL - 1);
  assert.equal(desk.beat('t1').until, desk.now + TTL);
});

const HERE = { node: 'here', registry: 'r-here' };
const THERE = { node: 'there', registry: 'r-there' };

/** A job that runs at one node, while a new leader starts at another. */
function moved(slots: number): Desk {
  const desk = new Desk();
  desk.backend('b', { ...HERE, slots });
  desk.submit('a');
  desk.accept('a');
  desk.step({ type: 'open', owner: 'next' });
  desk.backend('b', { ...THERE, slots });
  return desk;
}

test('two nodes never use one backend at the same time: it stays at its node while an attempt is open on it', () => {
  const desk = moved(1);
  desk.submit('b');
  assert.deepEqual([desk.state('a'), desk.state('b')], ['stale', 'queued']);
  const step = desk.step({ type: 'tick' });
  assert.deepEqual(
    [step.changes, [...step.touched]],
    [[], []],
    'nothing is asked of an executor that cannot know',
  );
  desk.order({ type: 'resolve', uid: 'a', by: 'test', how: { as: 'failed' } });
  desk.step({ type: 'tick' });
  assert.equal(desk.state('b'), 'claimed', 'settled by hand, it moves to the node that leads');
  assert.equal(desk.engine.state.leases.get('backend:b')?.record.agent, 'there');
});

test('no slot of a backend at another node is used, however many are free', () => {
  const desk = moved(4);
  desk.submit('b');
  assert.equal(desk.state('b'), 'queued');
  const why = explain(desk.engine.state, desk.job('b'))?.text;
  assert.equal(why, 'not reachable: "b" (what it runs is at node "here")');
});

test("when the backend's node leads again, its running attempts are confirmed", () => {
  const desk = moved(1);
  desk.step({ type: 'open', owner: 'again' });
  desk.backend('b', { ...HERE, slots: 1 });
  desk.found('a', { is: 'running' });
  assert.equal(desk.state('a'), 'running');
});

test('nodes with the same registry share a backend: its attempts are confirmed', () => {
  const desk = new Desk();
  desk.backend('b', HERE);
  desk.submit('a');
  desk.accept('a');
  desk.step({ type: 'open', owner: 'next' });
  desk.backend('b', { ...HERE, node: 'beside' });
  desk.found('a', { is: 'running' });
  assert.equal(desk.state('a'), 'running');
});
