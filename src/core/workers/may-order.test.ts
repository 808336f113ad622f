import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { GB, PoolKit } from '../../../test/fakes/pool-engine.ts';
import type { Mode } from '../../model/governance.ts';
import { dueWorkers } from '../engine/due.ts';
import type { PoolSettings } from '../settings.ts';

/** Longer than what is between two forecasts of the demand. */
const FORECAST_MS = 11_000;

class Kit extends PoolKit {
  constructor(pools: Partial<PoolSettings> = {}) {
    super({ minResidentMs: 0, ...pools });
    for (const id of ['m', 'n']) this.model(id, { vramBytes: 8 * GB });
  }

  setMode(mode: Mode): void {
    this.step({ type: 'mode', order: { mode, by: 'ann', why: 'a test', isPerson: true } });
  }

  /** What is ordered in LOCKDOWN, what as soon as a person has led the way back, and what as time passes. */
  ordered(after: () => void): readonly (readonly string[])[] {
    this.setMode('LOCKDOWN');
    after();
    this.pass(FORECAST_MS);
    const locked = dueWorkers(this.engine.state).map(({ kind }) => kind);
    this.setMode('RECOVERY');
    const atOnce = this.obey();
    this.pass(FORECAST_MS);
    return [locked, atOnce, this.obey()];
  }
}

describe('[ADR-7] in LOCKDOWN no worker is ordered, and none makes room for another', () => {
  test('for jobs that wait', () => {
    const kit = new Kit();
    kit.pool('p', [10]);
    kit.ask('a', 'm');
    kit.obey();
    kit.accept('a');
    kit.end('a', SUCCESS);
    assert.deepEqual(
      kit.ordered(() => kit.ask('b', 'n')),
      [[], ['stop m', 'start n'], []],
    );
    assert.equal(kit.state('b'), 'claimed');
  });

  test('for worker pools', () => {
    const kit = new Kit();
    kit.pool('p', [80]);
    const named = { agent: undefined, adapter: undefined, variant: undefined, metadata: undefined };
    const spec = { ...named, provisioner: 'managers', model: 'm', desired: 2, holdMs: 0 } as const;
    assert.deepEqual(
      kit.ordered(() => kit.step({ type: 'worker-pool', id: 'w', order: { is: 'create', spec }, by: 'op' })),
      [[], ['start m', 'start m'], []],
    );
  });

  test('for a reload', () => {
    const kit = new Kit();
    kit.pool('p', [80]);
    assert.deepEqual(
      kit.ordered(() =>
        kit.step({ type: 'pool-order', id: 'p', order: { is: 'reload', model: 'n' }, by: 'op' }),
      ),
      [[], [], ['start n']],
    );
  });

  test('ahead of demand', () => {
    const kit = new Kit({ prewarm: true, idleUnloadMs: 600_000 });
    kit.pool('p', [80]);
    for (let n = 0; n < 60; n++) {
      kit.ask(`j${n}`, 'm');
      kit.obey();
      kit.accept(`j${n}`);
      kit.pass(10_000);
      kit.end(`j${n}`, SUCCESS);
    }
    const [worker = ''] = kit.pools.get('p')?.workers.keys() ?? [];
    assert.deepEqual(
      kit.ordered(() => kit.dies('p', worker)),
      [[], [], ['start m']],
    );
  });
});
