import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { PoolKit } from '../../../test/fakes/pool-engine.ts';
import type { PoolSettings } from '../settings.ts';

/** Two pools whose devices differ in size, so that without a region the larger, far one would be chosen. */
function regions(settings: Partial<PoolSettings> = {}, nearGb = 24): PoolKit {
  const kit = new PoolKit({ region: 'here', minResidentMs: 0, ...settings });
  kit.pool('far', [80], { region: 'there' });
  kit.pool('near', [nearGb], { region: 'here' });
  kit.model('m', { slots: 1 });
  return kit;
}

const poolsOf = (kit: PoolKit): string[] =>
  [...kit.engine.state.workers.values()].map(({ pool, state }) => `${pool} ${state}`);

describe('[ORCH-16.3] a worker is started', () => {
  test('in the region of the brain, however much room there is elsewhere', () => {
    const kit = regions();
    kit.ask('a', 'm');
    assert.deepEqual(poolsOf(kit), ['near starting']);
  });

  test('in the region of the waiting job, which goes before that of the brain', () => {
    const kit = regions();
    kit.ask('a', 'm', { region: 'there' });
    assert.deepEqual(poolsOf(kit), ['far starting']);
  });

  test('in another region when the near one has no room, does not answer or is drained', () => {
    const small = regions({}, 8);
    small.ask('a', 'm');
    assert.deepEqual(poolsOf(small), ['far starting']);
    const silent = regions();
    silent.step({ type: 'pool-lost', id: 'near' });
    silent.ask('a', 'm');
    assert.deepEqual(poolsOf(silent), ['far starting']);
    const drained = regions();
    drained.step({
      type: 'pool-order',
      id: 'near',
      order: { is: 'drain', deadlineMs: undefined },
      by: 'ops',
    });
    drained.ask('a', 'm');
    assert.deepEqual(poolsOf(drained), ['far starting']);
  });

  test('in the near region where room must be made for it', () => {
    const kit = new PoolKit({ region: 'here', minResidentMs: 0 });
    kit.pool('far', [12], { region: 'there' });
    kit.pool('near', [12], { region: 'here' });
    for (const id of ['a', 'b', 'c']) kit.model(id);
    // The worker far away is the one that was not used for longer.
    for (const [id, region] of [
      ['a', 'there'],
      ['b', 'here'],
    ] as const) {
      kit.ask(id, id, { region });
      kit.obey();
      kit.accept(id);
      kit.pass(1000);
      kit.end(id, SUCCESS);
    }
    assert.deepEqual(poolsOf(kit), ['far running', 'near running']);
    kit.ask('c', 'c');
    assert.deepEqual(poolsOf(kit), ['far running', 'near stopping']);
  });

  test('ahead of demand in the near region too', () => {
    const kit = regions({ prewarm: true });
    // Jobs that may not run yet arrive all the same, and nothing waits for a worker.
    for (let n = 0; n < 60; n++) {
      kit.ask(`later${n}`, 'm', { not_before: kit.now + 1e9 });
      kit.pass(1000);
    }
    assert.deepEqual(
      [...kit.engine.state.workers.values()].map(({ pool, why }) => [pool, why.is]),
      [['near', 'prewarm']],
    );
  });
});
