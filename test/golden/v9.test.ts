/**
 * v9 is about consumers: who holds which attempt, what nobody has claimed, and a policy. maker/consumers.ts says what has
 * happened; this program finds all of it, and goes on where it was.
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
import { ANN, POOL } from './maker/consumers.ts';
import { onBothStores, START } from './v2-kit.ts';

/** Before the lease of a consumer ends. */
const NOW = START + 60_000;

async function open(t: TestContext, place: string): Promise<Orchestrator> {
  const clock = { now: () => NOW, monotonic: () => NOW - START, isMadeUp: true } as const;
  const env: Env = { ...realEnv(), clock };
  const database = place.startsWith('mariadb:') ? `store: mariadb\nmariadb: {url: "${place}"}\n` : '';
  const config = loadConfig({ text: database });
  const store = configuredStore(config).open({ env, config, folder: place });
  const brain = new Orchestrator({ env, store, backends: [], settings: runtimeSettings(config) });
  t.after(() => brain.stop());
  await brain.start();
  return brain;
}

async function assertAllThere(brain: Orchestrator): Promise<void> {
  const consumers = await brain.consumers.list();
  assert.deepEqual(consumers.map(({ id, state, held, labels }) => [id, state, held, labels['zone']]).sort(), [
    [`${POOL}/ann`, 'live', 1, 'a'],
    [`${POOL}/bob`, 'live', 1, 'a'],
  ]);
  const states = ['done', 'held', 'lost', 'unclaimed'].map(async (id) => (await brain.get(id)).state);
  assert.deepEqual(await Promise.all(states), ['succeeded', 'running', 'stale', 'claimed']);
  assert.equal(engineOf(brain).state.brain?.fenced?.token, 'done:1');
  const { set, why, by } = await brain.policy.view();
  assert.deepEqual([set.gates?.agent_waiting, why, by], [{ high: 50, low: 40 }, 'a flood', 'ann']);
}

onBothStores(
  'version 9: consumers, what they hold and the policy are there, also at a second opening',
  async (t, place) => {
    const first = await open(t, place);
    await assertAllThere(first);
    await first.checkpoint();
    await first.stop();
    await assertAllThere(await open(t, place));
  },
  'v9',
);

onBothStores(
  'version 9: a consumer goes on with what it holds, and claims what was waiting',
  async (t, place) => {
    const brain = await open(t, place);
    const { lost } = await brain.consumers.heartbeat(ANN, { held: ['held:1'], claimed: 2 });
    assert.deepEqual(lost, []);
    const text = await brain.consumers.claim(ANN, { claim: 3, max: 1 }, () => undefined);
    const { jobs } = JSON.parse(text) as { jobs: { token: string }[] };
    assert.deepEqual(
      jobs.map(({ token }) => token),
      ['unclaimed:1'],
    );
    const results = ['held:1', 'unclaimed:1'].map((token) => ({ token, ok: true as const, result: token }));
    await brain.consumers.results(ANN, { results });
    for (const id of ['held', 'unclaimed']) assert.equal((await brain.wait(id)).state, 'succeeded');
  },
  'v9',
);
