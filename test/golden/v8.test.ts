/**
 * v8 is about governance, and about the records that were added beside it: of modules, of the tools and tasks of MCP
 * servers, of schedules and batches. maker/governed.ts says what has happened; this program finds all of it, and goes on
 * where it was.
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
import { GOVERNED_BEHAVIOURS, GOVERNED_CONFIG, GOVERNED_SEAT } from './maker/governed.ts';
import { onBothStores, START } from './v2-kit.ts';

/** Within the minute in which two jobs had started. */
const NOW = START + 30_000;

async function open(t: TestContext, place: string): Promise<Orchestrator> {
  const clock = { now: () => NOW, monotonic: () => NOW - START, isMadeUp: true } as const;
  const env: Env = { ...realEnv(), clock };
  const database = place.startsWith('mariadb:') ? `store: mariadb\nmariadb: {url: "${place}"}\n` : '';
  const config = loadConfig({ text: GOVERNED_CONFIG + database });
  const store = configuredStore(config).open({ env, config, folder: place });
  const backends = [new ScriptedExecutor(GOVERNED_SEAT, GOVERNED_BEHAVIOURS)];
  const brain = new Orchestrator({ env, store, backends, settings: { ...runtimeSettings(config), drainMs: 20 } });
  t.after(() => brain.stop());
  await brain.start();
  return brain;
}

async function assertAllThere(brain: Orchestrator): Promise<void> {
  const { mode, by, why, since, violations, last_violations } = await brain.governance.view();
  assert.deepEqual([mode, by, violations], ['LOCKDOWN', 'rule:never', 2]);
  assert.match(why, /"never" forbids it/);
  assert.ok(since >= START && since < NOW);
  assert.deepEqual(
    last_violations.map(({ rule, critical }) => [rule, critical]),
    [
      ['rule:no-count', false],
      ['rule:never', true],
    ],
  );
  assert.deepEqual(await brain.moduleMarks.read('mailer'), [
    [1, 3],
    [5, 9],
  ]);
  const pins = (await brain.mcp.pins()).map(({ tool, hash, by: who }) => [tool, hash, who]);
  assert.deepEqual(pins.sort(), [
    ['echo', 'echo-1', 'first-seen'],
    ['read', 'read-2', 'ann'],
  ]);
  const task = await brain.mcp.task('bounded:1');
  assert.deepEqual([task?.server, task?.taskId], ['notes', 'task-7']);
  const { state } = engineOf(brain);
  assert.equal(state.open.get('bounded:1')?.open?.maxTokens, 50);
  assert.deepEqual(state.tables.spent.get('mode:others')?.minute?.started, 2);
  assert.equal(state.tables.schedule.get('default~nightly')?.by, 'ann');
  assert.equal((await brain.batches.get('b')).name, 'a batch');
}

onBothStores(
  'version 8: the mode, its limits and the records beside it are there, also at a second opening',
  async (t, place) => {
    const first = await open(t, place);
    await assertAllThere(first);
    await first.checkpoint();
    await first.stop();
    await assertAllThere(await open(t, place));
  },
  'v8',
);

onBothStores(
  'version 8: jobs still wait because of the mode, and go on when people have led the way back',
  async (t, place) => {
    const brain = await open(t, place);
    for (const id of ['plain-3', 'in-batch'])
      assert.match((await brain.get(id)).waiting?.text ?? '', /LOCKDOWN .* "rule:never"/, id);
    await brain.governance.setByPerson({ mode: 'RECOVERY', why: 'a mistake' }, 'bob');
    await brain.governance.setByPerson({ mode: 'NORMAL', why: 'all is well' }, 'bob');
    for (const id of ['plain-3', 'in-batch']) assert.equal((await brain.wait(id)).state, 'succeeded', id);
    assert.equal((await brain.get('bounded')).state, 'running');
  },
  'v8',
);
