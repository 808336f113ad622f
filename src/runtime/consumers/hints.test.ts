import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineKit, SUCCESS } from '../../../test/fakes/engine-kit.ts';
import { runtimeSettings } from '../../app/settings.ts';
import { loadConfig } from '../../config/load.ts';
import type { Doorbell, PoolHints } from '../../core/ports/doorbell.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Change } from '../../model/records.ts';
import { MemoryStore } from '../../stores/memory/memory.ts';
import { Orchestrator } from '../orchestrator.ts';
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
    loop: { durable: () => commit.promise, ask: () => Promise.reject(new Error('nothing waits')) },
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

test('a job that comes while a claim waits is claimed in the commit that records its attempt', async (t) => {
  const env = realEnv();
  const turns: (readonly Change[])[] = [];
  const store = new (class extends MemoryStore {
    override append(changes: readonly Change[], now: number): number {
      turns.push(changes);
      return super.append(changes, now);
    }
  })(env.timers);
  const settings = runtimeSettings(loadConfig({}));
  const orchestrator = new Orchestrator({ env, store, settings, backends: [] });
  t.after(() => orchestrator.stop());
  await orchestrator.start();
  const body = { pool: 'p', slots: 2, types: ['t'] };
  const { consumer_id: id } = await orchestrator.consumers.register(body);
  const claim = (n: number, waitMs: number) =>
    orchestrator.consumers.claim(id, { claim: n, max: 2, wait_ms: waitMs }, () => undefined);
  const [waited] = await Promise.all([
    claim(1, 60_000),
    // A first claim that finds nothing has been answered by the engine when this one has.
    claim(2, 0).then(() => orchestrator.submitMany(['a', 'b', 'c'].map((job_id) => ({ job_id, type: 't' })))),
  ]);
  const tokens = JSON.parse(waited).jobs.map(({ token }: { token: string }) => token);
  assert.deepEqual(tokens, ['a:1', 'b:1']);
  const causes = turns
    .find((changes) => changes.some(({ kind }) => kind === 'ask'))
    ?.map(({ cause }) => cause);
  assert.equal(causes?.filter((cause) => cause === 'claimed-by-consumer').length, 2, `${causes}`);
});
