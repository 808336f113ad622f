import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { causeText } from '../../model/causes.ts';
import { OrchdError } from '../../model/errors.ts';
import type { GateSettings } from '../../model/policy.ts';
import type { WorkerPoolRecord, WorkerPoolSpec } from '../../model/worker-pool-record.ts';
import { dueWorkers } from '../engine/due.ts';
import type { PoolSettings } from '../settings.ts';
import type { WorkerPoolOrder } from './worker-pools.ts';

const HOUR = 3_600_000;

class Kit extends PoolKit {
  constructor(settings: Partial<PoolSettings> = {}, gates?: GateSettings) {
    super({ idleUnloadMs: 1000, ...settings }, gates ? { gates } : {});
  }

  command(id: string, order: WorkerPoolOrder): WorkerPoolRecord | OrchdError {
    return this.step({ type: 'worker-pool', id, order, by: 'op' }).reply as WorkerPoolRecord | OrchdError;
  }

  create(id: string, spec: Partial<WorkerPoolSpec> = {}): WorkerPoolRecord | OrchdError {
    const all: WorkerPoolSpec = {
      provisioner: 'managers',
      agent: undefined,
      model: 'm',
      adapter: undefined,
      variant: undefined,
      desired: 2,
      holdMs: 0,
      metadata: undefined,
      ...spec,
    };
    return this.command(id, { is: 'create', spec: all });
  }

  firstOf(id: string): string {
    return this.engine.state.workers.keptFor(id)[0]?.[0] ?? '';
  }

  row(id: string): string {
    const { status, spawned } = this.engine.state.tables.worker_pool.get(id) ?? {};
    return `${status} ${spawned}`;
  }

  tick(ms = 1000): void {
    this.pass(ms);
  }
}

const codeOf = (reply: unknown): string => (reply instanceof OrchdError ? reply.code : 'taken');

const begin = (kit: Kit, id: string): void => {
  if (kit.job(id).open?.state === 'intended') kit.accept(id);
};

describe('a worker pool', () => {
  test('has as many workers as it is told, and keeps them while they are idle', () => {
    const kit = new Kit();
    kit.pool('p', [24, 24]);
    kit.model('m');
    kit.create('w', { desired: 3 });
    assert.equal(kit.row('w'), 'starting 0');
    kit.obey();
    assert.deepEqual([kit.row('w'), kit.workers()], ['running 3', ['m running', 'm running', 'm running']]);
    kit.tick(HOUR);
    assert.deepEqual([kit.obey(), kit.row('w')], [[], 'running 3']);
  });

  test('[NEWS-3] its row is written before its workers are ordered', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    kit.create('w');
    const kinds = kit.log.map(({ change }) => change.kind);
    assert.ok(kinds.includes('worker') && kinds.indexOf('worker_pool') < kinds.indexOf('worker'));
  });

  test('a worker that dies is replaced', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    kit.create('w');
    kit.obey();
    const id = kit.firstOf('w');
    kit.dies('p', id);
    assert.equal(kit.row('w'), 'starting 1');
    assert.deepEqual([kit.obey(), kit.row('w')], [['start m'], 'running 2']);
  });

  test('takes over a worker that demand has started, and gives up what is too many', () => {
    const kit = new Kit();
    kit.pool('p', [40]);
    kit.model('m');
    kit.ask('a', 'm');
    kit.obey();
    kit.create('w', { desired: 3 });
    assert.deepEqual([kit.obey(), kit.row('w')], [['start m', 'start m'], 'running 3']);
    begin(kit, 'a');
    kit.command('w', { is: 'change', desired: 1 });
    assert.deepEqual(kit.obey(), ['stop m', 'stop m']);
    assert.deepEqual([kit.row('w'), kit.state('a')], ['running 1', 'running'], 'the busy one stays');
  });

  test('is not evicted for another model, and evicts idle workers that nobody keeps', () => {
    const kit = new Kit({ idleUnloadMs: HOUR, minResidentMs: 0 });
    kit.pool('p', [24]);
    kit.model('m');
    kit.model('n', { vramBytes: 20 * GB });
    kit.ask('a', 'n');
    kit.obey();
    begin(kit, 'a');
    kit.create('w');
    assert.deepEqual(kit.obey(), [], 'a busy worker stays');
    kit.end('a', SUCCESS);
    kit.tick();
    assert.deepEqual([kit.obey(), kit.row('w')], [['stop n', 'start m', 'start m'], 'running 2']);
    kit.ask('b', 'n');
    kit.tick(HOUR);
    assert.deepEqual([kit.obey(), kit.state('b')], [[], 'queued']);
  });

  test('[NEWS-3] is filled again by the brain that comes next', () => {
    const kit = new Kit();
    kit.pool('p', [40]);
    kit.model('m');
    kit.create('w', { desired: 3 });
    kit.obey();
    const id = kit.firstOf('w');
    const next = new Kit();
    kit.reborn(next);
    next.pools.get('p')?.workers.delete(id);
    next.report('p');
    assert.deepEqual([next.obey(), next.row('w')], [['start m'], 'running 3']);
  });

  test('is filled elsewhere when a pool manager has not answered for a minute, and has none too many when it returns', () => {
    const kit = new Kit();
    kit.pool('p', [40]);
    kit.model('m');
    kit.create('w');
    kit.obey();
    kit.ask('a', 'm');
    begin(kit, 'a');
    kit.pool('q', [40]);
    kit.step({ type: 'pool-lost', id: 'p' });
    kit.tick(59_000);
    assert.deepEqual([kit.obey(), kit.row('w')], [[], 'running 2'], 'it may only be restarted');
    kit.tick(1000);
    assert.equal(kit.row('w'), 'starting 0');
    assert.deepEqual([kit.obey(), kit.row('w')], [['start m', 'start m'], 'running 2']);
    assert.equal(kit.state('a'), 'running', 'nobody knows that it is lost');
    kit.report('p');
    assert.deepEqual([kit.obey(), kit.row('w')], [['stop m', 'stop m'], 'running 2']);
    assert.equal(kit.state('a'), 'running', 'the busy one stays');
  });

  test('is filled elsewhere by the next brain too, if a pool manager does not come back to it', () => {
    const kit = new Kit();
    kit.pool('p', [40]);
    kit.model('m');
    kit.create('w');
    kit.obey();
    const next = kit.reborn(new Kit()) as Kit;
    next.pool('q', [40]);
    next.tick(59_000);
    assert.deepEqual(next.obey(), []);
    next.tick(1000);
    assert.deepEqual(next.obey(), ['start m', 'start m']);
  });

  test('of thousands is started a part at a time, and no pool gets more workers than its manager can report', () => {
    const kit = new Kit();
    kit.model('m', { vramBytes: GB / 1000 });
    for (const id of ['p', 'q']) kit.pool(id, [80]);
    kit.create('w', { desired: 10_000 });
    const { workers } = kit.engine.state;
    assert.equal(workers.size, 256);
    for (let n = 0; n < 5; n++) kit.tick();
    assert.deepEqual(
      ['p', 'q'].map((id) => workers.countIn(id)),
      [256, 256],
    );
  });

  test('[NEWS-9] waits while the gate of GPU memory is closed, and is filled from the lower mark on', () => {
    const kit = new Kit({}, { gpuMemory: { closeAbove: 90, openBelow: 75 } });
    kit.model('m', { vramBytes: GB });
    kit.pool('p', [100], { usedGb: 91 });
    kit.create('w');
    assert.deepEqual([kit.obey(), kit.row('w')], [[], 'starting 0']);
    const pool = kit.pools.get('p');
    for (const [usedGb, begun] of [
      [80, []],
      [70, ['start m', 'start m']],
    ] as const) {
      if (pool) pool.usedBytes = usedGb * GB;
      kit.report('p');
      kit.tick();
      assert.deepEqual(kit.obey(), begun, `${usedGb} GB are used`);
    }
    assert.equal(kit.row('w'), 'running 2');
  });

  test('waits while its model cannot be started', () => {
    const kit = new Kit({ startTries: 1, startCooldownMs: 5000 });
    kit.pool('p', [40]);
    const ref = kit.model('m');
    kit.broken.add(ref);
    kit.create('w');
    kit.obey();
    kit.tick();
    assert.deepEqual([kit.obey(), kit.row('w')], [[], 'starting 0'], 'it rests after failed starts');
    kit.broken.delete(ref);
    kit.tick(6000);
    assert.deepEqual([kit.obey(), kit.row('w')], [['start m', 'start m'], 'running 2']);
  });
});

describe('a worker pool that is drained', () => {
  const busy = (): Kit => {
    const kit = new Kit();
    kit.pool('p', [40]);
    kit.model('m');
    kit.create('w');
    kit.obey();
    kit.ask('a', 'm');
    begin(kit, 'a');
    return kit;
  };

  test('[NEWS-10] gets no new jobs, lets those that run finish, and is stopped then', () => {
    const kit = busy();
    kit.command('w', { is: 'drain', graceMs: HOUR });
    assert.deepEqual(kit.obey().sort(), ['drain m', 'stop m']);
    assert.deepEqual([kit.row('w'), kit.state('a')], ['draining 1', 'running']);
    assert.equal(codeOf(kit.command('w', { is: 'change', desired: 5 })), 'ILLEGAL_STATE');
    kit.end('a', SUCCESS);
    kit.tick();
    kit.obey();
    kit.tick();
    assert.deepEqual([kit.row('w'), kit.state('a')], ['stopped 0', 'succeeded']);
  });

  test('[NEWS-10] after its grace time the rest is stopped, and not before', () => {
    const kit = busy();
    kit.command('w', { is: 'drain', graceMs: 60_000 });
    kit.obey();
    kit.tick(59_000);
    assert.deepEqual([kit.obey(), kit.row('w')], [[], 'draining 1']);
    kit.tick(2000);
    assert.deepEqual(kit.obey(), ['stop m']);
    kit.tick();
    assert.equal(kit.row('w'), 'stopped 0');
  });

  test('its workers are no longer kept for it when it is created again', () => {
    const kit = busy();
    assert.equal(codeOf(kit.create('w', { desired: 9 })), 'ILLEGAL_STATE');
    kit.command('w', { is: 'drain', graceMs: 0 });
    kit.tick();
    kit.obey();
    kit.tick();
    assert.equal(codeOf(kit.create('w', { desired: 1 })), 'taken');
    kit.obey();
    assert.equal(kit.row('w'), 'running 1');
  });

  test('[NEWS-3] an evicted one stops its workers at once, and keeps its row until it is deleted', () => {
    const kit = busy();
    assert.equal(codeOf(kit.step({ type: 'delete-worker-pool', id: 'w' }).reply), 'ILLEGAL_STATE');
    kit.command('w', { is: 'evict' });
    assert.deepEqual([kit.obey(), kit.row('w')], [['stop m', 'stop m'], 'evicted 0']);
    assert.deepEqual([kit.workers(), kit.state('a')], [[], 'queued'], 'the job that was lost is tried again');
    kit.step({ type: 'delete-worker-pool', id: 'w' });
    assert.equal(codeOf(kit.command('w', { is: 'heartbeat', spawned: 1 })), 'NOT_FOUND');
  });

  test('[NEWS-3] the time for which it is held counts from its last work', () => {
    const kit = new Kit();
    kit.pool('p', [40]);
    kit.model('m');
    kit.create('w', { holdMs: 600_000 });
    kit.obey();
    kit.tick(500_000);
    kit.ask('a', 'm');
    begin(kit, 'a');
    kit.tick(500_000);
    kit.end('a', SUCCESS);
    kit.tick(599_000);
    assert.equal(kit.row('w'), 'running 2');
    kit.tick(2000);
    kit.obey();
    kit.tick();
    assert.equal(kit.row('w'), 'stopped 0');
    const causes = kit.log.flatMap(({ change }) =>
      change.kind === 'worker_pool' ? [causeText(change.cause)] : [],
    );
    assert.ok(causes.includes('drain:hold'), `${causes}`);
  });
});

describe('a worker pool is refused', () => {
  test('without a model, and with one that is unknown, retired or too large for any device', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    kit.model('large', { vramBytes: 30 * GB });
    kit.model('old');
    kit.step({ type: 'model-state', id: 'old', state: 'retired' });
    const codes = [undefined, 'none', 'old', 'large'].map((model) => codeOf(kit.create('w', { model })));
    assert.deepEqual(codes, ['INVALID_PARAMS', 'MODEL_NOT_FOUND', 'ADMISSION_REJECT', 'INSUFFICIENT_VRAM']);
    assert.equal(kit.engine.state.tables.worker_pool.size, 0);
    assert.deepEqual(dueWorkers(kit.engine.state), []);
  });

  test('if another one has its name; the same request again gets the same answer', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    const first = kit.create('w');
    assert.deepEqual([kit.create('w'), codeOf(kit.create('w', { desired: 9 }))], [first, 'ILLEGAL_STATE']);
  });
});

describe('a worker pool whose workers are started by a program outside', () => {
  test('[NEWS-3] is starting until that says that all run; heartbeats that bring nothing new are not written', () => {
    const kit = new Kit();
    kit.create('w', { provisioner: 'external', model: undefined });
    kit.command('w', { is: 'heartbeat', spawned: 1 });
    assert.equal(kit.row('w'), 'starting 1');
    kit.command('w', { is: 'heartbeat', spawned: 2 });
    assert.equal(kit.row('w'), 'running 2');
    const before = kit.log.length;
    kit.command('w', { is: 'heartbeat', spawned: 2 });
    assert.equal(kit.log.length, before);
    kit.tick(61_000);
    kit.command('w', { is: 'heartbeat', spawned: 2 });
    assert.equal(kit.log.length, before + 1);
    kit.command('w', { is: 'drain', graceMs: undefined });
    kit.tick(HOUR);
    assert.equal(kit.row('w'), 'draining 2');
    kit.command('w', { is: 'heartbeat', spawned: 0 });
    kit.tick();
    assert.equal(kit.row('w'), 'stopped 0');
  });

  test('a pool of pool managers takes no heartbeats', () => {
    const kit = new Kit();
    kit.pool('p', [24]);
    kit.model('m');
    kit.create('w');
    assert.equal(codeOf(kit.command('w', { is: 'heartbeat', spawned: 7 })), 'ILLEGAL_STATE');
  });
});
