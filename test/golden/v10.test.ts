/**
 * v10 is about worker pools: those of pool managers and of programs outside, in every status, and a policy about how many
 * workers there are. maker/worker-pools.ts says what has happened; this program finds all of it, and goes on where it was.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { configuredStore } from '../../src/stores/registry.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { ScriptedExecutor } from './maker/executor.ts';
import { ScriptedPools } from './maker/pools.ts';
import { onBothStores, START } from './v2-kit.ts';

/** Before anything that is held or drains is over. */
const NOW = START + 60_000;

interface Opened {
  readonly brain: Orchestrator;
  readonly pools: ScriptedPools;
}

async function open(t: TestContext, place: string): Promise<Opened> {
  const clock = { now: () => NOW, monotonic: () => NOW - START, isMadeUp: true } as const;
  const env: Env = { ...realEnv(), clock };
  const database = place.startsWith('mariadb:') ? `store: mariadb\nmariadb: {url: "${place}"}\n` : '';
  const config = loadConfig({ text: database });
  const store = configuredStore(config).open({ env, config, folder: place });
  const pools = new ScriptedPools((info) => new ScriptedExecutor(info, {}));
  const settings = runtimeSettings(config);
  const brain = new Orchestrator({ env, store, backends: [], managers: pools, settings });
  t.after(() => brain.stop());
  await brain.start();
  return { brain, pools };
}

async function assertAllThere({ brain }: Opened): Promise<void> {
  const rows = await brain.pools.workerPools.list();
  const found = rows.map((row) => [row.pool_id, row.status, row.desired_workers, row.spawned_workers, row.by]);
  assert.deepEqual(found.sort(), [
    ['draining', 'draining', 1, 1, 'bob'],
    ['evicted', 'evicted', 1, 0, 'ann'],
    ['full', 'running', 1, 1, 'ann'],
    ['outside', 'starting', 4, 2, 'bob'],
    ['stopped', 'stopped', 1, 0, 'ann'],
    ['warm', 'running', 1, 1, 'ann'],
  ]);
  const warm = await brain.pools.workerPools.get('warm');
  assert.deepEqual(
    [warm.serves, warm.model_id, warm.adapter, warm.variant, warm.agent_name, warm.metadata, warm.hold_seconds],
    ['chat', 'assistant', '/adapters/news.gguf', 'fp16', 'ann', { team: 'news 🦊' }, 0],
  );
  assert.equal((await brain.pools.workerPools.get('draining')).drain_by, START + 2000 + 3_600_000);
  assert.equal(engineOf(brain).state.workers.keptFor('warm').length, 1);
  const { set, why, by } = await brain.policy.view();
  assert.deepEqual(
    [set.min_warm_workers_per_pool, set.max_total_workers, why, by],
    [1, 50, 'a quiet week', 'bob'],
  );
}

onBothStores(
  'version 10: worker pools and the policy about them are there, also at a second opening',
  async (t, place) => {
    const first = await open(t, place);
    await assertAllThere(first);
    await first.brain.checkpoint();
    await first.brain.stop();
    await assertAllThere(await open(t, place));
  },
  'v10',
);

onBothStores(
  'version 10: a worker that a pool kept and that is gone is ordered again, and the pools go on',
  async (t, place) => {
    const { brain, pools } = await open(t, place);
    const [[gone] = []] = engineOf(brain).state.workers.keptFor('warm');
    pools.add('box', [40]);
    await pools.ordered(1);
    assert.deepEqual(pools.endings, []);
    const [order] = pools.starts;
    assert.ok(order && order.id !== gone && order.modelRef === 'file:/models/chat.gguf');
    const { workerPools } = brain.pools;
    const row = await workerPools.command('outside', { is: 'heartbeat', spawned: 4 }, 'outside');
    assert.equal(row.status, 'running');
    await workerPools.delete('evicted');
    await assert.rejects(async () => workerPools.get('evicted'), { code: 'NOT_FOUND' });
  },
  'v10',
);
