/** Draining a worker pool whose workers are consumers that a program outside starts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import type { ConsumerDeclaration } from '../../model/consumer-record.ts';
import { OrchdError } from '../../model/errors.ts';
import type { WorkerPoolSpec } from '../../model/worker-pool-record.ts';
import type { Claimed } from '../attempts/claims.ts';
import type { WorkerPoolOrder } from './worker-pools.ts';

const TTL_MS = 15_000;
const GRACE_MS = 60_000;

/** A worker pool `w` with the consumer `w/one`, whose jobs need memory of the device of the pool `gpu`. */
class Kit extends PoolKit {
  #claims = 0;

  constructor() {
    super();
    this.pool('gpu', [24]);
    const spec: WorkerPoolSpec = {
      ...{ provisioner: 'external', desired: 1, holdMs: 0 },
      ...{ agent: undefined, model: undefined, adapter: undefined, variant: undefined, metadata: undefined },
    };
    this.orderPool({ is: 'create', spec });
    this.orderPool({ is: 'heartbeat', spawned: 1 });
    this.register('one');
  }

  orderPool(order: WorkerPoolOrder): void {
    const { reply } = this.step({ type: 'worker-pool', id: 'w', order, by: 'op' });
    if (reply instanceof OrchdError) throw reply;
  }

  register(name: string): void {
    const declared: ConsumerDeclaration = {
      ...{ pool: 'w', name, token: name, slots: 4, types: ['t'], models: undefined, labels: {} },
      ...{ paid: false, listens: undefined, ttlMs: TTL_MS, gpuMemoryMb: 5 * (GB / 2 ** 20), gpuPool: 'gpu' },
    };
    this.step({ type: 'consumer', declared });
  }

  claim(consumer: string): Claimed {
    const order = { consumer, claim: ++this.#claims, atMost: 9 };
    return this.step({ type: 'claim', ...order }).reply as Claimed;
  }

  /** Lets time pass in which the consumers send what they should, and returns what `one` is told to stop. */
  alive(ms: number, held: readonly string[]): void {
    for (let left = ms; left > 0; left -= 5000) {
      this.pass(Math.min(left, 5000));
      this.step({ type: 'held', consumer: 'one', held, claimed: this.#claims });
      this.step({ type: 'tick' });
    }
  }

  succeed(token: string): void {
    this.step({ type: 'results', consumer: 'one', results: [{ token, outcome: SUCCESS }] });
  }

  row(): string {
    const { status, spawned } = this.engine.state.tables.worker_pool.get('w') ?? {};
    return `${status} ${spawned}`;
  }

  leases(): string[] {
    return [...this.engine.state.leases.all()].map(({ record }) => record.attempt ?? '');
  }

  /** The changes of the row and the ends of leases, in the order of their commits. */
  written(): string[] {
    return this.log.flatMap(({ change: { kind, id, after } }) => {
      if (kind === 'lease' && after === null) return [`released ${id}`];
      return kind === 'worker_pool' ? [(after as { status: string } | null)?.status ?? 'deleted'] : [];
    });
  }
}

function busy(onUnknown?: 'hold'): Kit {
  const kit = new Kit();
  kit.submit('a', { type: 't', ...(onUnknown && { on_unknown: onUnknown }) });
  assert.equal(kit.claim('one').attempts.length, 1);
  return kit;
}

test('[NEWS-10] consumers of a pool that drains get no new jobs, finish what they hold, give the device back, and then it is stopped', () => {
  const kit = busy();
  kit.orderPool({ is: 'drain', graceMs: GRACE_MS });
  kit.submit('b', { type: 't' });
  const { attempts, isDraining } = kit.claim('one');
  assert.deepEqual([attempts.length, isDraining], [0, true]);
  kit.register('two');
  assert.deepEqual([kit.claim('two').attempts.length, kit.state('b')], [0, 'queued']);
  kit.alive(GRACE_MS / 2, ['a:1']);
  assert.deepEqual([kit.row(), kit.state('a'), kit.leases()], ['draining 1', 'running', ['a:1']]);
  kit.succeed('a:1');
  assert.deepEqual([kit.state('a'), kit.leases()], ['succeeded', []]);
  kit.orderPool({ is: 'heartbeat', spawned: 0 });
  kit.step({ type: 'tick' });
  assert.equal(kit.row(), 'draining 0', 'its consumers are there yet');
  kit.orderPool({ is: 'heartbeat', spawned: 1 });
  for (const consumer of ['one', 'two']) kit.step({ type: 'consumer-left', consumer });
  kit.step({ type: 'tick' });
  assert.equal(kit.row(), 'draining 1', 'its program has a process');
  kit.orderPool({ is: 'heartbeat', spawned: 0 });
  kit.step({ type: 'tick' });
  assert.equal(kit.row(), 'stopped 0');
});

test('[NEWS-10] after the grace time what runs is to be ended, and the pool is stopped when the device was given back', () => {
  const kit = busy();
  kit.orderPool({ is: 'drain', graceMs: GRACE_MS });
  kit.alive(GRACE_MS - 5000, ['a:1']);
  assert.equal(kit.engine.state.tables.worker_pool.get('w')?.graceOver, undefined);
  kit.alive(10_000, ['a:1']);
  assert.equal(kit.engine.state.tables.worker_pool.get('w')?.graceOver, true, 'its program is told');
  assert.deepEqual([kit.row(), kit.leases()], ['draining 1', ['a:1']]);
  kit.pass(TTL_MS);
  kit.step({ type: 'tick' });
  assert.deepEqual([kit.row(), kit.leases(), kit.state('a')], ['stopped 1', [], 'queued']);
  assert.deepEqual(kit.written().slice(-2), ['released attempt:a:1', 'stopped']);
});

test('[NEWS-10] a job that is held because nobody knows its outcome keeps no device when its pool is stopped', () => {
  const kit = busy('hold');
  kit.orderPool({ is: 'drain', graceMs: GRACE_MS });
  kit.pass(TTL_MS);
  kit.step({ type: 'tick' });
  assert.deepEqual([kit.row(), kit.state('a'), kit.leases()], ['draining 1', 'stale', ['a:1']]);
  kit.orderPool({ is: 'heartbeat', spawned: 0 });
  kit.step({ type: 'tick' });
  assert.deepEqual([kit.row(), kit.state('a'), kit.leases()], ['stopped 0', 'stale', []]);
  assert.deepEqual(kit.written().slice(-2), ['released attempt:a:1', 'stopped']);
});

test('[NEWS-10] a consumer that was only silent gets no new jobs where its pool drains, or it was drained itself', () => {
  const kit = busy();
  kit.pass(TTL_MS);
  kit.orderPool({ is: 'drain', graceMs: undefined });
  assert.deepEqual([kit.claim('one').isDraining, kit.state('a')], [true, 'queued']);

  const other = busy();
  other.step({ type: 'drain-consumer', id: 'w/one', by: 'op' });
  other.pass(TTL_MS);
  assert.deepEqual([other.claim('one').isDraining, other.state('a')], [true, 'queued']);
});

test('a pool that is drained once more has its new grace time, and one that is created again has none', () => {
  const kit = busy();
  kit.orderPool({ is: 'drain', graceMs: 0 });
  kit.alive(5000, ['a:1']);
  assert.equal(kit.engine.state.tables.worker_pool.get('w')?.graceOver, true);
  kit.orderPool({ is: 'drain', graceMs: GRACE_MS });
  kit.alive(GRACE_MS - 5000, ['a:1']);
  assert.equal(kit.engine.state.tables.worker_pool.get('w')?.graceOver, undefined);
});

test('consumers of a pool that has the name of a worker pool of pool managers are none of its workers', () => {
  const kit = new Kit();
  kit.model('m');
  const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
  const spec = { ...named, provisioner: 'managers', model: 'm', desired: 1, holdMs: 0 } as const;
  kit.orderPool({ is: 'evict' });
  kit.step({ type: 'consumer-left', consumer: 'one' });
  kit.orderPool({ is: 'create', spec });
  kit.register('two');
  const works = (consumer: string): void => {
    kit.submit(consumer, { type: 't' });
    assert.equal(kit.claim(consumer).attempts.length, 1, consumer);
  };
  works('two');
  kit.orderPool({ is: 'drain', graceMs: 0 });
  kit.obey();
  kit.report('gpu');
  kit.step({ type: 'tick' });
  assert.equal(kit.row(), 'stopped 0');
  assert.deepEqual([kit.state('two'), kit.leases()], ['running', ['two:1']], 'it runs, and keeps its device');
  kit.register('three');
  works('three');
});
