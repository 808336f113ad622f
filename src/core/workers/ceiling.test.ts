import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';
import type { PolicyValues } from '../../model/policy.ts';
import type { Provisioner } from '../../model/worker-pool-record.ts';
import { explain } from '../scheduling/explain.ts';
import type { EngineSettings, PoolSettings } from '../settings.ts';
import { wishedWorkers } from './ceiling.ts';
import { previewPolicy } from './policy-preview.ts';

const HOUR = 3_600_000;

class Kit extends PoolKit {
  constructor(pools: Partial<PoolSettings> = {}, settings: Partial<EngineSettings> = {}) {
    super({ minResidentMs: 0, ...pools }, settings);
    for (const id of ['m', 'n', 'o']) this.model(id, { vramBytes: 8 * GB });
  }

  workerPool(id: string, desired: number, fields: { holdMs?: number; provisioner?: Provisioner } = {}): void {
    const { holdMs = 0, provisioner = 'managers' } = fields;
    const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
    const spec = { ...named, provisioner, model: 'm', desired, holdMs };
    this.step({ type: 'worker-pool', id, order: { is: 'create', spec }, by: 'op' });
  }

  spawned(id: string, spawned: number): void {
    this.step({ type: 'worker-pool', id, order: { is: 'heartbeat', spawned }, by: 'op' });
  }

  policy(values: PolicyValues, force = false): void {
    const order = { values, limits: undefined, by: 'ops', why: 'a test', force };
    const { reply } = this.step({ type: 'policy', order });
    if (reply instanceof OrchdError) throw reply;
  }

  row(id: string): string {
    const { status, spawned } = this.engine.state.tables.worker_pool.get(id) ?? {};
    return `${status} ${spawned}`;
  }

  wished(...ids: string[]): number[] {
    return ids.map((id) => {
      const record = this.engine.state.tables.worker_pool.get(id);
      return record ? wishedWorkers(this.engine, id, record) : -1;
    });
  }

  why(job: string): string {
    return explain(this.engine.state, this.job(job))?.text ?? '';
  }
}

describe('no more than max_total_workers', () => {
  test('are started for jobs: a worker of another model is replaced once it is idle', () => {
    const kit = new Kit({ maxTotalWorkers: 2 });
    kit.pool('p', [80]);
    for (const [job, model] of [
      ['a', 'm'],
      ['b', 'n'],
      ['c', 'o'],
    ] as const)
      kit.ask(job, model);
    assert.deepEqual(kit.obey(), ['start m', 'start n']);
    assert.equal(kit.engine.state.workers.size, 2);
    assert.match(kit.why('c'), /as many workers run as may: 2 \(max_total_workers\).*in use/);
    kit.end('a', SUCCESS);
    kit.pass(1);
    kit.step({ type: 'tick' });
    assert.deepEqual(kit.obey(), ['stop m', 'start o']);
    assert.deepEqual([kit.state('b'), kit.state('c')], ['claimed', 'claimed']);
  });

  test('are started for jobs of one model either, however deep the queue is', () => {
    const kit = new Kit(
      { maxTotalWorkers: 3 },
      { gates: { queueDepth: { closeAbove: 1, openBelow: 1, onDepth: 'scale_up' } } },
    );
    kit.pool('p', [80]);
    for (let n = 0; n < 9; n++) kit.ask(`j${n}`, 'm');
    kit.obey();
    assert.deepEqual(kit.workers(), ['m running', 'm running', 'm running']);
  });

  test('a busy worker of another model is drained for a job that has waited for long', () => {
    const kit = new Kit({ maxTotalWorkers: 1, drainAfterMs: 10_000 });
    kit.pool('p', [80]);
    kit.ask('a', 'm');
    kit.obey();
    kit.ask('b', 'n');
    assert.deepEqual(kit.obey(), []);
    kit.pass(10_001);
    assert.deepEqual(kit.obey(), ['drain m']);
    kit.end('a', SUCCESS);
    assert.deepEqual(kit.obey(), ['stop m', 'start n']);
  });

  test('are started by worker pools, which replace idle workers that nobody keeps', () => {
    const kit = new Kit({ maxTotalWorkers: 2, idleUnloadMs: HOUR });
    kit.pool('p', [80]);
    kit.ask('a', 'n');
    kit.obey();
    kit.workerPool('w', 5);
    assert.deepEqual(kit.obey(), ['start m']);
    kit.end('a', SUCCESS);
    kit.pass(1);
    assert.deepEqual(kit.obey(), ['stop n', 'start m']);
    assert.deepEqual([kit.row('w'), kit.engine.state.workers.size], ['starting 2', 2]);
    kit.ask('b', 'n');
    kit.pass(HOUR);
    assert.deepEqual(
      [kit.obey(), kit.state('b')],
      [[], 'queued'],
      'what a worker pool keeps is not replaced',
    );
  });

  test('are started by a reload, nor ahead of demand', () => {
    const kit = new Kit({ maxTotalWorkers: 1 });
    kit.pool('p', [80]);
    kit.pool('q', [80], { labels: { zone: 'b' } });
    kit.ask('a', 'm');
    kit.obey();
    const other = kit.workerOf('a').startsWith('p/') ? 'q' : 'p';
    kit.step({ type: 'pool-order', id: other, order: { is: 'reload', model: 'n' }, by: 'op' });
    kit.pass(1000);
    assert.deepEqual(kit.obey(), []);
    kit.policy({ maxTotalWorkers: 2 });
    kit.pass(1000);
    assert.deepEqual(kit.obey(), ['start n']);
    const eager = new Kit({ maxTotalWorkers: 1, prewarm: true, idleUnloadMs: HOUR });
    eager.pool('p', [80]);
    for (let n = 0; n < 60; n++) {
      eager.ask(`j${n}`, 'm');
      eager.obey();
      if (eager.job(`j${n}`).open?.state === 'intended') eager.accept(`j${n}`);
      eager.pass(10_000);
      eager.end(`j${n}`, SUCCESS);
    }
    eager.pass(10_000);
    assert.deepEqual([eager.obey(), eager.workers().length], [[], 1]);
  });

  test('count in pools that answer and in those that have not reported yet; a lost one does not hold up the others', () => {
    const kit = new Kit({ maxTotalWorkers: 2 });
    kit.pool('p', [8]);
    kit.pool('q', [8]);
    for (const id of ['a', 'b']) {
      kit.ask(id, id === 'a' ? 'm' : 'n');
      kit.obey();
    }
    const next = new Kit({ maxTotalWorkers: 2 });
    kit.reborn(next);
    next.pool('r', [80]);
    next.ask('c', 'o');
    assert.deepEqual(next.obey(), [], 'the workers of p and q count before these have reported');
    for (const id of ['p', 'q']) next.report(id);
    next.step({ type: 'pool-lost', id: 'q' });
    assert.deepEqual(next.obey(), ['start o']);
  });
});

describe('when there are more workers than max_total_workers', () => {
  test('idle ones are stopped, the longest idle first and those of worker pools last; busy ones go on', () => {
    const kit = new Kit({ idleUnloadMs: HOUR });
    kit.pool('p', [80]);
    kit.workerPool('w', 1);
    for (const [job, model] of [
      ['a', 'n'],
      ['b', 'o'],
    ] as const) {
      kit.ask(job, model);
      kit.obey();
    }
    kit.ask('busy', 'm');
    kit.end('b', SUCCESS);
    kit.pass(10);
    kit.end('a', SUCCESS);
    const values = { maxTotalWorkers: 2 };
    const preview = previewPolicy(kit.engine, kit.engine.configured, values, undefined, kit.now);
    kit.policy(values);
    kit.pass(1000);
    const { state } = kit.engine;
    const going = [...state.workers.entries()].filter(([, record]) => record.state === 'stopping');
    assert.deepEqual(
      preview.excessWorkers,
      going.map(([id]) => id),
    );
    assert.deepEqual(kit.obey(), ['stop o']);
    kit.policy({ maxTotalWorkers: 0 }, true);
    kit.pass(1000);
    assert.deepEqual([kit.obey(), kit.state('busy')], [['stop n'], 'claimed']);
    kit.end('busy', SUCCESS);
    kit.pass(1000);
    assert.deepEqual([kit.obey(), kit.row('w')], [['stop m'], 'starting 0']);
    kit.step({ type: 'undo-policy', by: 'ops', why: 'x' });
    assert.deepEqual(kit.obey(), ['start m']);
    kit.step({ type: 'undo-policy', by: 'ops', why: 'x' });
    kit.pass(1000);
    assert.deepEqual(kit.obey(), ['stop m'], 'an undo of an undo: none again');
  });
});

describe('min_warm_workers_per_pool', () => {
  test('is what each worker pool has at least, also after the time for which it is held', () => {
    const kit = new Kit({ idleUnloadMs: 1000 });
    kit.pool('p', [80]);
    kit.workerPool('w', 3, { holdMs: 60_000 });
    kit.workerPool('v', 0);
    kit.obey();
    assert.deepEqual([kit.row('w'), kit.row('v')], ['running 3', 'running 0']);
    const values = { minWarmWorkersPerPool: 2 };
    const preview = previewPolicy(kit.engine, kit.engine.configured, values, undefined, kit.now);
    assert.deepEqual(preview.workerPools, [{ id: 'v', before: 0, wished: 2 }]);
    kit.policy(values);
    kit.obey();
    assert.deepEqual([kit.row('w'), kit.row('v')], ['running 3', 'running 2']);
    kit.pass(1000);
    kit.pass(61_000);
    assert.deepEqual(kit.obey(), ['stop m']);
    assert.deepEqual([kit.row('w'), kit.row('v')], ['running 2', 'running 2']);
    kit.pass(HOUR);
    assert.deepEqual([kit.obey(), kit.row('w')], [[], 'running 2']);
    for (const id of ['a', 'b', 'c', 'd', 'e']) kit.ask(id, 'm');
    kit.pass(1000);
    kit.obey();
    assert.equal(kit.row('w'), 'running 3', 'with work it has its wished size again');
    kit.step({ type: 'undo-policy', by: 'ops', why: 'x' });
    assert.deepEqual([kit.row('v'), kit.wished('v')], ['running 2', [0]]);
    kit.obey();
    assert.equal(kit.row('v').split(' ')[0], 'running');
  });

  test('without it, a pool is drained after that time; a pool that is over has none in any case', () => {
    const kit = new Kit({ minWarmWorkersPerPool: 1 });
    kit.pool('p', [80]);
    kit.workerPool('w', 2, { holdMs: 60_000 });
    kit.obey();
    kit.pass(1000);
    kit.pass(61_000);
    kit.obey();
    assert.equal(kit.row('w'), 'running 1');
    kit.policy({ minWarmWorkersPerPool: 0 });
    kit.pass(1000);
    kit.obey();
    kit.pass(1000);
    assert.deepEqual([kit.row('w'), kit.wished('w')], ['stopped 0', [0]]);
    kit.policy({ minWarmWorkersPerPool: 5 });
    assert.deepEqual([kit.obey(), kit.wished('w')], [[], [0]]);
  });

  test('holds in the brain that comes next', () => {
    const kit = new Kit();
    kit.pool('p', [80]);
    kit.workerPool('w', 0);
    kit.policy({ minWarmWorkersPerPool: 2, maxTotalWorkers: 3 });
    const next = new Kit();
    kit.reborn(next);
    next.report('p');
    next.obey();
    assert.deepEqual([next.row('w'), next.engine.settings.pools.maxTotalWorkers], ['running 2', 3]);
  });
});

test('worker pools of programs outside are told what the ceiling leaves them, and count against it', () => {
  const kit = new Kit({ maxTotalWorkers: 5 });
  kit.workerPool('x', 4, { provisioner: 'external' });
  kit.workerPool('y', 4, { provisioner: 'external' });
  assert.deepEqual(kit.wished('x', 'y'), [4, 1]);
  kit.spawned('y', 3);
  assert.deepEqual(kit.wished('x', 'y'), [2, 3], 'what one has is not taken from it for another');
  kit.pool('p', [80]);
  kit.ask('a', 'm');
  assert.deepEqual(kit.obey(), ['start m']);
  assert.deepEqual(kit.wished('x', 'y'), [1, 3]);
  kit.spawned('x', 1);
  kit.ask('b', 'n');
  assert.deepEqual(kit.obey(), [], 'all five are there');
  kit.policy({ maxTotalWorkers: 2 });
  assert.deepEqual(kit.wished('x', 'y'), [1, 0]);
});

describe('a policy is refused', () => {
  const fieldOf = (values: PolicyValues, pools: Partial<PoolSettings> = {}): unknown => {
    const order = { values, limits: undefined, by: 'ops', why: 'a test', force: false };
    const { reply, changes } = new Kit(pools).step({ type: 'policy', order });
    if (!(reply instanceof OrchdError)) return 'taken';
    return [reply.code, reply.details.field, changes.length];
  };

  test('with a floor above the ceiling, also where one of them is from the configuration', () => {
    const floor = ['INVALID_PARAMS', 'min_warm_workers_per_pool', 0];
    assert.deepEqual(fieldOf({ minWarmWorkersPerPool: 3, maxTotalWorkers: 2 }), floor);
    assert.deepEqual(fieldOf({ minWarmWorkersPerPool: 3 }, { maxTotalWorkers: 2 }), floor);
    assert.deepEqual(fieldOf({ maxTotalWorkers: 2 }, { minWarmWorkersPerPool: 3 }), floor);
    assert.equal(fieldOf({ minWarmWorkersPerPool: 2, maxTotalWorkers: 2 }), 'taken');
  });

  test('if no worker could be started any more, unless it is forced', () => {
    assert.deepEqual(fieldOf({ maxTotalWorkers: 0 }), ['INVALID_PARAMS', 'force', 0]);
    new Kit().policy({ maxTotalWorkers: 0 }, true);
  });
});
