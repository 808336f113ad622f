import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import type { Doorbell, PoolHints } from '../../core/ports/doorbell.ts';
import { realEnv } from '../../kit/env/real.ts';
import { Hints } from './hints.ts';

/** An engine with a consumer that listens, a doorbell that notes what it is told, and a store that commits when told to. */
function setUp() {
  const kit = new EngineKit();
  const declared = {
    ...{ pool: 'p', name: 'ann', token: 'ann', slots: 2, types: ['t'], models: undefined, labels: {} },
    ...{ paid: false, listens: 'redis' as const, ttlMs: 15_000 },
  };
  kit.step({ type: 'consumer', declared });
  const sweeps: (readonly PoolHints[])[] = [];
  const doorbell: Doorbell = {
    placeOf: () => ({ key: 'k', group: 'g' }),
    publish: () => undefined,
    settled: () => undefined,
    sweep: (pools) => sweeps.push(pools),
  };
  const commit = Promise.withResolvers<void>();
  const { timers } = realEnv();
  const hints = new Hints({
    engine: kit.engine,
    timers,
    loop: { durable: () => commit.promise },
    doorbell,
  });
  const swept = async () => {
    hints.sweep();
    return async (): Promise<PoolHints | undefined> => {
      commit.resolve();
      await commit.promise;
      return sweeps[0]?.[0];
    };
  };
  return { kit, swept };
}

test('an entry is kept while the end of its attempt is not durable', async () => {
  const { kit, swept } = setUp();
  kit.submit('a');
  kit.step({ type: 'claim', consumer: 'ann', claim: 1, atMost: 1 });
  const commit = await swept();
  kit.step({ type: 'results', consumer: 'ann', results: [{ token: 'a:1', outcome: SUCCESS }] });
  const told = await commit();
  assert.deepEqual([...(told?.held ?? [])], ['a:1']);
});

test('an attempt whose intent is not durable is neither published by a sweep, nor is its entry removed', async () => {
  const { kit, swept } = setUp();
  kit.submit('a');
  const commit = await swept();
  kit.submit('b');
  const told = await commit();
  assert.deepEqual(
    told?.waiting.map(({ token }) => token),
    ['a:1'],
  );
  assert.deepEqual([...(told?.held ?? [])], ['b:1']);
});
