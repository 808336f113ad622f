/**
 * v6 is about waits and sessions: states inside of records, in records of their own, as blobs and as chains of blobs, and
 * messages that are sealed. maker/waits.ts says what has happened; this program finds all of it, and goes on where it was.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import { examine } from '../../src/index.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { configuredStore } from '../../src/stores/registry.ts';
import { LARGE, LONG, waitingBackends } from './maker/waits.ts';
import { copyOfJournal, dumpOfTables, goldenFolder, onBothStores, START } from './v2-kit.ts';

/** Soon after the last change, a day and an hour after the first: one session was archived since. */
const NOW = START + 25 * 3_600_000 + 60_000;

async function open(t: TestContext, place: string): Promise<Orchestrator> {
  const clock = { now: () => NOW, monotonic: () => NOW - START, isMadeUp: true } as const;
  const env: Env = { ...realEnv(), clock };
  const database = place.startsWith('mariadb:') ? `{store: mariadb, mariadb: {url: "${place}"}}` : undefined;
  const config = loadConfig(database === undefined ? {} : { text: database });
  const store = configuredStore(config).open({ env, config, folder: place });
  const settings = { ...runtimeSettings(config), drainMs: 20 };
  const brain = new Orchestrator({ env, store, backends: waitingBackends(env), settings });
  t.after(() => brain.stop());
  await brain.start();
  return brain;
}

/** What each waiting job goes on with. */
const TEXTS = { short: 'short', long: LONG, large: LARGE, sealed: LONG, 'long-later': LONG };
const TALKING = ['talking', 'talking-later'];

const MESSAGES = [
  { role: 'user', content: LARGE },
  { role: 'assistant', content: 'short' },
];

const heard = (times: number) => [
  { role: 'user', content: LARGE },
  ...Array.from({ length: times }, () => ({ role: 'tool', content: `data\n${LARGE}\nend` })),
];

async function assertWaiting(brain: Orchestrator): Promise<void> {
  for (const id of [...Object.keys(TEXTS), ...TALKING]) assert.equal((await brain.get(id)).state, 'waiting', id);
  for (const id of ['old', 'talk'])
    assert.deepEqual(await brain.reads.sessions.messages('default', id), MESSAGES, id);
  const { archived, metadata } = await brain.reads.sessions.get('default', 'old');
  assert.deepEqual([archived, metadata], [true, { mode: 'quiet' }]);
  assert.equal((await brain.reads.sessions.get('default', 'talk')).archived, undefined);
}

onBothStores(
  'version 6: every waiting job and every session is there, also at a second opening',
  async (t, place) => {
    const first = await open(t, place);
    await assertWaiting(first);
    await first.checkpoint();
    await first.stop();
    await assertWaiting(await open(t, place));
  },
  'v6',
);

onBothStores(
  'version 6: waiting jobs go on with what they kept, and one whose deadline has passed can be redriven',
  async (t, place) => {
    const brain = await open(t, place);
    for (const [id, text] of Object.entries(TEXTS)) {
      await brain.orders.answer(id, 1, 'go on', 'default');
      assert.deepEqual((await brain.wait(id)).result, { state: { text }, answer: 'go on' }, id);
    }
    for (const id of TALKING) {
      await brain.orders.answer(id, 3, 'go on', 'default');
      assert.deepEqual((await brain.wait(id)).result, { messages: heard(2), turn: 3 }, id);
    }
    assert.equal((await brain.get('long-dead')).state, 'dead');
    await brain.redrive('long-dead');
    const { result } = await brain.wait('long-dead');
    assert.deepEqual((result as { state: unknown }).state, { text: LONG });
  },
  'v6',
);

test('version 6: the doctor finds the journal healthy, before and after this program has used it', async (t) => {
  const folder = copyOfJournal('v6');
  const { disk } = realEnv();
  const damage = async () => (await examine(disk, folder)).findings.filter(({ verdict }) => verdict === 'bad');
  assert.deepEqual(await damage(), []);
  const brain = await open(t, folder);
  await brain.checkpoint();
  await brain.stop();
  assert.deepEqual(await damage(), []);
});

test('version 6: the data hold states in every form', () => {
  const dump = dumpOfTables('v6');
  assert.match(dump, /^\('wait_state', 'long'/m);
  const log = readFileSync(join(goldenFolder('v6'), 'journal/log/0000000000000001.log'), 'utf8');
  assert.match(log, /\["wait_state","long",\{"v":1,"text":/);
  assert.match(log, /"wait":\{"step":1,"state":"\{\\"text\\":\\"short/);
  const blobs = readFileSync(join(goldenFolder('v6'), 'journal/blobs/00000001.blob'), 'utf8');
  assert.match(blobs, /composed:1:/);
  assert.match(blobs, /composed:2:.*"slice":/);
});
