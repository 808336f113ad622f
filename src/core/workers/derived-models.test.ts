import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';
import type { WorkerPoolSpec } from '../../model/worker-pool-record.ts';

const LORA = 'file:/loras/lora.gguf';

class Kit extends PoolKit {
  /** The model that the pool serves, or the code of the refusal and its field. */
  create(id: string, spec: Partial<WorkerPoolSpec> = {}): string | undefined {
    const all: WorkerPoolSpec = {
      ...{ provisioner: 'managers', agent: undefined, model: 'm', adapter: LORA, variant: undefined },
      ...{ desired: 1, holdMs: 0, metadata: undefined },
      ...spec,
    };
    const { reply } = this.step({ type: 'worker-pool', id, order: { is: 'create', spec: all }, by: 'op' });
    if (reply instanceof OrchdError) return `${reply.code} ${reply.details.field}`;
    return this.engine.state.tables.worker_pool.get(id)?.serves;
  }

  delete(id: string): void {
    this.step({ type: 'worker-pool', id, order: { is: 'evict' }, by: 'op' });
    this.obey();
    this.step({ type: 'delete-worker-pool', id });
  }

  ref(id: string): string | undefined {
    return this.engine.state.catalog.get(id)?.ref;
  }

  stateOf(id: string): string | undefined {
    return this.engine.state.catalog.get(id)?.state;
  }
}

const site = (gb = 100): Kit => {
  const kit = new Kit({ minResidentMs: 0, maxWorkersPerModel: 1 });
  kit.pool('p', [gb]);
  kit.model('m', { slots: 4 });
  return kit;
};

describe('a worker pool with an adapter or a variant', () => {
  test('serves a model of its own, which is written with its row, before its workers are ordered', () => {
    const kit = site();
    const before = kit.log.length;
    assert.equal(kit.create('w'), 'm+lora');
    assert.equal(kit.ref('m+lora'), 'file:/models/m.gguf::adapter=/loras/lora.gguf');
    assert.equal(kit.create('v', { variant: 'fp16', adapter: undefined }), 'm+fp16');
    assert.equal(kit.ref(kit.create('b', { variant: 'fp16' }) ?? ''), `${kit.ref('m+lora')}::variant=fp16`);
    const kinds = kit.log.slice(before, before + 3).map(({ change }) => change.kind);
    assert.deepEqual(kinds, ['model', 'worker_pool', 'worker']);
    assert.equal(kit.create('plain', { adapter: undefined }), 'm');
  });

  test('runs no job of the plain model, however long that waits, and its jobs run nowhere else', () => {
    const kit = site(10);
    kit.create('w');
    kit.obey();
    kit.ask('plain', 'm');
    assert.deepEqual([kit.obey(), kit.state('plain')], [[], 'queued']);
    kit.pool('q', [10]);
    assert.deepEqual([kit.obey(), kit.state('plain')], [['start m'], 'claimed']);
    for (const id of ['a', 'b', 'c', 'd', 'e']) kit.ask(id, 'm+lora');
    const states = ['a', 'd', 'e'].map((id) => kit.state(id));
    assert.deepEqual(states, ['claimed', 'claimed', 'queued'], 'the plain worker has room');
  });

  test('its adapter and variant are checked, and nothing is written where they are refused', () => {
    const kit = site();
    kit.create('w');
    const before = kit.log.length;
    for (const [spec, refusal] of [
      [{ adapter: 'lora.gguf' }, 'INVALID_PARAMS adapter'],
      [{ adapter: 'hf:org/repo' }, 'INVALID_PARAMS adapter'],
      [{ adapter: '/a/../b.gguf' }, 'INVALID_PARAMS adapter'],
      [{ adapter: '/a::variant=x' }, 'INVALID_PARAMS adapter'],
      [{ adapter: '/a@sha256:00' }, 'INVALID_PARAMS adapter'],
      [{ adapter: `/${'a/'.repeat(510)}a` }, 'INVALID_PARAMS adapter'],
      [{ variant: '-x' }, 'INVALID_PARAMS variant'],
      [{ model: 'm+lora' }, 'INVALID_PARAMS model_id'],
    ] as const)
      assert.equal(kit.create('x', spec), refusal, JSON.stringify(spec).slice(0, 60));
    assert.equal(kit.log.length, before);
  });

  test('pools with the same adapter serve one model; another file of that name is another one', () => {
    const kit = site();
    assert.deepEqual(
      [kit.create('w'), kit.create('x', { adapter: '/loras/lora.gguf' })],
      ['m+lora', 'm+lora'],
    );
    const other = kit.create('y', { adapter: '/others/lora.gguf' }) ?? '';
    assert.match(other, /^m\+lora-[0-9a-f]{8}$/);
    assert.equal(kit.create('z', { adapter: '/others/lora.gguf' }), other);
    kit.delete('w');
    kit.delete('y');
    assert.deepEqual([kit.stateOf('m+lora'), kit.stateOf(other)], ['active', 'active']);
    kit.delete('x');
    kit.delete('z');
    assert.deepEqual([kit.stateOf('m+lora'), kit.stateOf(other)], ['retired', 'retired']);
  });

  test('its model is retired with it, unless a route names it, and comes back with the next pool', () => {
    const kit = site();
    kit.create('w');
    const steps = [{ model: 'm+lora', on: [] }];
    kit.step({ type: 'route', id: 'best', steps, by: 'op' });
    kit.delete('w');
    assert.equal(kit.stateOf('m+lora'), 'active');
    kit.step({ type: 'drop-route', id: 'best', by: 'op' });
    kit.create('w');
    kit.delete('w');
    assert.equal(kit.stateOf('m+lora'), 'retired');
    kit.model('m', { ref: 'file:/models/m2.gguf' });
    assert.equal(kit.create('w'), 'm+lora');
    assert.equal(kit.stateOf('m+lora'), 'active');
    assert.equal(
      kit.ref('m+lora'),
      'file:/models/m2.gguf::adapter=/loras/lora.gguf',
      'of the model as it is now',
    );
    kit.step({ type: 'worker-pool', id: 'w', order: { is: 'evict' }, by: 'op' });
    assert.equal(kit.create('w', { adapter: undefined }), 'm');
    assert.equal(kit.stateOf('m+lora'), 'retired', 'the pool is another one now');
  });

  test('a model that an operator has registered stays as it is', () => {
    const kit = site();
    kit.model('tuned', { ref: 'file:/models/m.gguf::adapter=/loras/lora.gguf' });
    assert.equal(kit.create('w'), 'tuned');
    kit.delete('w');
    assert.equal(kit.stateOf('tuned'), 'active');
    kit.step({ type: 'model-state', id: 'tuned', state: 'retired' });
    assert.equal(kit.create('w'), 'ADMISSION_REJECT model_id');
  });

  test('a file that failed its verification serves no jobs with an adapter either', () => {
    const kit = new Kit({ verifyPolicy: 'block' });
    kit.pool('p', [100]);
    kit.model('m');
    kit.create('w');
    const verified = { at: 1, pool: 'p', verdict: 'fail', sha256: 'x' } as const;
    kit.step({ type: 'verified', id: 'm', verified });
    const refused = kit.trySubmit('a', { type: 'inference', model: 'm+lora' });
    assert.equal((refused as OrchdError).code, 'MODEL_UNVERIFIED');
  });

  test('a program outside is told of them, and serves what its consumers say', () => {
    const kit = site();
    assert.equal(kit.create('w', { provisioner: 'external', adapter: 'whatever' }), 'm');
    assert.equal(kit.engine.state.catalog.size, 1);
  });
});
