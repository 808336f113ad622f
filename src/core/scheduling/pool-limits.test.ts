import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import type { Provisioner } from '../../model/worker-pool-record.ts';
import { previewPolicy } from '../workers/policy-preview.ts';
import { explain } from './explain.ts';

class Kit extends PoolKit {
  constructor(...limits: readonly (readonly [scope: string, running: number])[]) {
    super({}, { limits: limits.map(([scope, running]) => ({ scope, running })) });
    this.model('m', { slots: 4 });
  }

  workerPool(id: string, desired: number, provisioner: Provisioner = 'managers'): void {
    const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
    const spec = { ...named, provisioner, model: 'm', desired, holdMs: 0 };
    this.step({ type: 'worker-pool', id, order: { is: 'create', spec }, by: 'op' });
    this.obey();
  }

  askFor(count: number, fields = {}): void {
    for (let n = 0; n < count; n++) this.ask(`j${this.engine.state.seq}`, 'm', fields);
    this.obey();
  }

  /** The jobs that run, by the pool of their worker. */
  running(): Record<string, number> {
    const found: Record<string, number> = {};
    for (const { open } of this.engine.state.open.values()) {
      const pool = open?.backend.split('/')[0] ?? '';
      found[pool] = (found[pool] ?? 0) + 1;
    }
    return found;
  }

  why(): string | undefined {
    const waiting = [...this.engine.state.jobs.values()].find(({ job }) => job.state === 'queued');
    return waiting && explain(this.engine.state, waiting)?.text;
  }

  endOne(): void {
    const [entry] = this.engine.state.open.values();
    if (entry) this.end(entry.uid, SUCCESS);
  }
}

describe('a limit of pool:NAME', () => {
  test('holds for the workers of a pool manager together, and others go on', () => {
    const kit = new Kit(['pool:p', 3]);
    kit.pool('p', [20]);
    kit.workerPool('w', 2);
    kit.askFor(5);
    assert.deepEqual(kit.running(), { p: 3 });
    assert.equal(kit.why(), '"pool:p" runs as many jobs as it may: 3');
    kit.endOne();
    assert.deepEqual(kit.running(), { p: 3 }, 'a freed place goes to the next job');
    kit.pool('q', [10]);
    kit.workerPool('v', 1);
    assert.deepEqual(kit.running(), { p: 3, q: 1 });
  });

  test('holds for the workers of a worker pool, wherever they are, and not for others beside them', () => {
    const kit = new Kit(['pool:w', 3]);
    kit.pool('p', [10]);
    kit.pool('q', [10]);
    kit.workerPool('w', 2);
    kit.askFor(6);
    const { p = 0, q = 0 } = kit.running();
    assert.equal(p + q, 3);
    assert.equal(kit.why(), '"pool:w" runs as many jobs as it may: 3');
    kit.pool('r', [10]);
    kit.workerPool('v', 1);
    assert.equal(kit.running()['r'], 3);
  });

  test('holds for both where a worker pool has the name of a pool', () => {
    const kit = new Kit(['pool:p', 2]);
    kit.pool('p', [10]);
    kit.workerPool('w', 1);
    kit.pool('q', [10]);
    kit.workerPool('p', 1);
    kit.askFor(4);
    const { p = 0, q = 0 } = kit.running();
    assert.equal(p + q, 2);
  });

  test('each of pool:* is counted for itself, and the stricter of two pools of a worker holds', () => {
    const kit = new Kit(['pool:*', 3], ['pool:w', 1]);
    kit.pool('p', [20]);
    kit.workerPool('w', 1);
    kit.workerPool('v', 1);
    kit.askFor(8);
    assert.deepEqual(kit.running(), { p: 3 });
    kit.pool('q', [10]);
    kit.workerPool('u', 1);
    assert.deepEqual(kit.running(), { p: 3, q: 3 });
  });

  test('holds again in the brain that comes next', () => {
    const limits: [string, number] = ['pool:w', 2];
    const kit = new Kit(limits);
    kit.pool('p', [10]);
    kit.workerPool('w', 1);
    kit.askFor(4);
    const next = new Kit(limits);
    kit.reborn(next);
    next.report('p');
    next.obey();
    assert.deepEqual(next.running(), { p: 2 });
  });

  test('is previewed: the pools in which more runs than would be let run', () => {
    const kit = new Kit();
    kit.pool('p', [10]);
    kit.workerPool('w', 1);
    kit.askFor(4);
    const limits = [
      { scope: 'pool:p', running: 3 },
      { scope: 'pool:w', running: 4 },
    ];
    const { scopes } = previewPolicy(kit.engine, kit.engine.configured, {}, limits, kit.now);
    assert.deepEqual(scopes, [{ scope: 'pool:p', running: 4, limit: 3 }]);
  });
});
