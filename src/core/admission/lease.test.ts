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

class LeaseKit extends EngineKit {
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
  const kit = new LeaseKit({ devices: DEVICES });
  const [kept, given] = [kit.grant(), kit.grant()];
  kit.submit('waits');
  kit.step({ type: 'space', full: true });
  const adding: EngineEvent[] = [
    { type: 'lease', request: { token: 'new', tenant: 'default', agent: 'a', minMemoryMb: 0, ttlMs: TTL } },
    { type: 'budget', tenant: 'default', id: 's', tokenBudget: 5 },
    { type: 'limits', limits: [], by: 'op' },
    { type: 'redrive', uid: 'waits', by: 'op', known: undefined },
  ];
  for (const event of adding) {
    const { reply, changes } = kit.step(event);
    assert.ok(reply instanceof OrchdError && reply.code === 'STORE_FULL', event.type);
    assert.deepEqual(changes, []);
  }
  kit.beat(kept.id);
  kit.release(given.id);
  kit.cancel('waits');
  assert.equal(kit.state('waits'), 'cancelled');
});

test('the device with the most free memory is granted, the CPU if none has enough, and fences grow', () => {
  const kit = new LeaseKit({ devices: DEVICES });
  const memories = [2000, 900, 900, 900, 100, 0, 0];
  const leases = memories.map((memory) => kit.grant(memory));
  assert.deepEqual(
    leases.map(({ record }) => record.gpuIndex),
    [1, 0, 1, undefined, 0, 1, 1],
  );
  for (const [at, lease] of leases.entries())
    assert.ok(at === 0 || lease.record.fence > (leases[at - 1] as HeldLease).record.fence);
  kit.release('t1');
  assert.equal(kit.grant(2000).record.gpuIndex, 1, 'what was given back is lent again');
});

test('a repeated request with one token is granted once; the token of another tenant is refused', () => {
  const kit = new LeaseKit({ devices: DEVICES });
  const request = { token: 'mine', tenant: 'default', agent: 'a', minMemoryMb: 800, ttlMs: TTL };
  const first = kit.ask({ type: 'lease', request });
  assert.deepEqual(kit.ask({ type: 'lease', request }), first);
  assert.equal(kit.engine.state.leases.size, 1);
  assert.throws(() => kit.ask({ type: 'lease', request: { ...request, tenant: 'other' } }), notHeld);
});

test('[NEWS-2] a heartbeat extends the lease, is written only after a third of its time, and fails after its expiry', () => {
  const kit = new LeaseKit();
  kit.grant();
  const before = kit.log.length;
  kit.now += TTL / 3 - 1;
  assert.equal(kit.beat('t1').until, kit.now + TTL);
  assert.equal(kit.log.length, before, 'it is kept in memory');
  kit.now += 1;
  kit.beat('t1');
  assert.deepEqual(
    kit.log.slice(before).map(({ change }) => [change.kind, change.cause]),
    [['lease', 'heartbeat']],
  );
  const end = kit.now + TTL;
  for (; kit.now < end + 3 * TTL; kit.pass(TTL - 1)) assert.equal(kit.beat('t1').until, kit.now + TTL);
  kit.pass(TTL - 1);
  assert.equal(kit.engine.state.leases.size, 0);
  assert.equal(kit.log.at(-1)?.change.cause, 'expired');
  assert.throws(() => kit.beat('t1'), notHeld);
});

test('[NEWS-2] an expired lease is not held even before a tick has removed it', () => {
  const kit = new LeaseKit();
  kit.grant();
  kit.now += TTL;
  assert.throws(() => kit.beat('t1'), notHeld);
  assert.throws(() => kit.release('t1'), notHeld);
});

test('unknown or released tokens, and those of another tenant, are not held', () => {
  const kit = new LeaseKit();
  kit.grant();
  assert.throws(() => kit.beat('nobody'), notHeld);
  assert.throws(() => kit.beat('t1', 'other'), notHeld);
  assert.throws(() => kit.release('t1', 'other'), notHeld);
  kit.release('t1');
  assert.throws(() => kit.beat('t1'), notHeld);
  assert.throws(() => kit.release('t1'), notHeld);
});

test('after a change of leader each lease has its full time again', () => {
  const kit = new LeaseKit();
  kit.grant();
  kit.now += TTL - 1;
  kit.step({ type: 'open', owner: 'next' });
  kit.pass(TTL - 1);
  assert.equal(kit.beat('t1').until, kit.now + TTL);
});

const HERE = { node: 'here', registry: 'r-here' };
const THERE = { node: 'there', registry: 'r-there' };

/** A job that runs at one node, while a new leader starts at another. */
function moved(slots: number): LeaseKit {
  const kit = new LeaseKit();
  kit.backend('b', { ...HERE, slots });
  kit.submit('a');
  kit.accept('a');
  kit.step({ type: 'open', owner: 'next' });
  kit.backend('b', { ...THERE, slots });
  return kit;
}

test('two nodes never use one backend at the same time: it stays at its node while an attempt is open on it', () => {
  const kit = moved(1);
  kit.submit('b');
  assert.deepEqual([kit.state('a'), kit.state('b')], ['stale', 'queued']);
  const step = kit.step({ type: 'tick' });
  assert.deepEqual(
    [step.changes, [...step.touched]],
    [[], []],
    'nothing is asked of an executor that cannot know',
  );
  kit.order({ type: 'resolve', uid: 'a', by: 'test', how: { as: 'failed' } });
  kit.step({ type: 'tick' });
  assert.equal(kit.state('b'), 'claimed', 'settled by hand, it moves to the node that leads');
  assert.equal(kit.engine.state.leases.get('backend:b')?.record.agent, 'there');
});

test('no slot of a backend at another node is used, however many are free', () => {
  const kit = moved(4);
  kit.submit('b');
  assert.equal(kit.state('b'), 'queued');
  const why = explain(kit.engine.state, kit.job('b'))?.text;
  assert.equal(why, 'not reachable: "b" (it runs at node "here")');
});

test("when the backend's node leads again, its running attempts are confirmed", () => {
  const kit = moved(1);
  kit.step({ type: 'open', owner: 'again' });
  kit.backend('b', { ...HERE, slots: 1 });
  kit.found('a', { is: 'running' });
  assert.equal(kit.state('a'), 'running');
});

test('nodes with the same registry share a backend: its attempts are confirmed', () => {
  const kit = new LeaseKit();
  kit.backend('b', HERE);
  kit.submit('a');
  kit.accept('a');
  kit.step({ type: 'open', owner: 'next' });
  kit.backend('b', { ...HERE, node: 'beside' });
  kit.found('a', { is: 'running' });
  assert.equal(kit.state('a'), 'running');
});

test('a tenant gets the memory of its first lease, and no more than half of what others leave of all devices', () => {
  const kit = new LeaseKit({ devices: DEVICES });
  const lent = (memory: number, tenant: string): number | undefined =>
    kit.grant(memory, tenant).record.gpuIndex;
  assert.equal(lent(1500, 'acme'), 1);
  assert.equal(lent(600, 'acme'), undefined, '2,100 of 4,000 MB is more than half');
  assert.equal(lent(500, 'acme'), 1);
  assert.equal(lent(1, 'acme'), undefined);
  assert.equal(lent(900, 'lab'), 0, 'the first lease of another tenant finds memory');
  assert.equal(lent(1000, 'default'), 1, 'the operator may hold all of it');
});

test('the operator releases the lease of any tenant, and another tenant only its own', () => {
  const kit = new LeaseKit();
  const { id } = kit.grant(0, 'acme');
  assert.throws(() => kit.release(id, 'lab'), notHeld);
  assert.throws(() => kit.release(id, 'default'), notHeld);
  assert.equal(kit.ask({ type: 'release', lease: id, tenant: undefined }).id, id);
});
