import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import { OrchdError } from '../../model/errors.ts';
import type { EvictedKind } from '../../model/policy.ts';

class Kit extends PoolKit {
  workerPool(id: string, desired: number): void {
    const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
    const spec = { ...named, provisioner: 'managers', model: 'm', desired, holdMs: 0 } as const;
    this.step({ type: 'worker-pool', id, order: { is: 'create', spec }, by: 'op' });
  }

  evict(pool: string, kind?: EvictedKind): unknown {
    const { reply } = this.step({ type: 'evict-pool', pool, kind, by: 'ops' });
    if (reply instanceof OrchdError) return [reply.code, reply.details.field];
    return (reply as readonly string[]).length;
  }

  status(id: string): string | undefined {
    return this.engine.state.tables.worker_pool.get(id)?.status;
  }
}

/** A worker pool `w` with two workers in the pool `p`, one of them busy; and a worker of another model there. */
const busy = (): Kit => {
  const kit = new Kit();
  kit.model('m');
  kit.model('n');
  kit.pool('p', [80]);
  kit.workerPool('w', 2);
  for (const [id, model] of [
    ['a', 'm'],
    ['b', 'n'],
  ] as const) {
    kit.ask(id, model);
    kit.obey();
    kit.accept(id);
  }
  return kit;
};

describe('evict_pool', () => {
  test('of a worker pool stops its workers at once and ends it; other workers of the same device go on', () => {
    const kit = busy();
    assert.equal(kit.evict('w'), 2);
    assert.deepEqual(kit.obey(), ['stop m', 'stop m']);
    assert.deepEqual([kit.status('w'), kit.state('b'), kit.workers()], ['evicted', 'running', ['n running']]);
    assert.deepEqual(kit.evict('w'), 0, 'once more changes nothing');
  });

  test('of the pool of a pool manager lets busy workers finish, and worker pools are filled again', () => {
    const kit = busy();
    assert.equal(kit.evict('p'), 3);
    assert.equal(kit.state('a'), 'running');
    const done = kit.obey().sort();
    assert.deepEqual(done, ['drain m', 'drain n', 'start m', 'start m', 'stop m']);
    for (const id of ['a', 'b']) kit.end(id, SUCCESS);
    kit.obey();
    assert.deepEqual([kit.status('w'), kit.workers()], ['running', ['m running', 'm running']]);
  });

  test('asks which one is meant where both have the name, and touches the other one then', () => {
    const kit = busy();
    kit.workerPool('p', 1);
    kit.obey();
    assert.deepEqual(kit.evict('p'), ['INVALID_PARAMS', 'kind']);
    assert.deepEqual(kit.obey(), []);
    assert.equal(kit.evict('p', 'worker_pool'), 1);
    assert.deepEqual(kit.obey(), ['stop m']);
    assert.deepEqual([kit.state('a'), kit.state('b'), kit.status('w')], ['running', 'running', 'running']);
    assert.equal(kit.evict('p', 'pool'), 3);
  });

  test('of a name that nobody has, or not of that kind, is refused', () => {
    const kit = busy();
    const none = ['NOT_FOUND', undefined];
    assert.deepEqual(
      [kit.evict('x'), kit.evict('w', 'pool'), kit.evict('p', 'worker_pool')],
      [none, none, none],
    );
  });
});
