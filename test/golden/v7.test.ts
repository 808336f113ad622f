/**
 * v7 is about conversations: sessions whose records name the threads of seats and what these have heard.
 * maker/threads.ts says what has happened; this program finds all of it, and goes on where it was. In v6 and before, a
 * session named only the backend that had run its last job.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Offer, OfferReply } from '../../src/core/ports/backend.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { configuredStore } from '../../src/stores/registry.ts';
import { eventually } from '../flow/site-client.ts';
import { answers, type Behaviour, ScriptedExecutor } from './maker/executor.ts';
import { THREAD_BEHAVIOURS, THREAD_SEATS } from './maker/threads.ts';
import { dumpOfTables, goldenFolder, onBothStores, START } from './v2-kit.ts';

const NOW = START + 60_000;

/** Writes down what it is offered. */
class Listener extends ScriptedExecutor {
  readonly offers: Offer[] = [];

  override offer(offer: Offer): Promise<OfferReply> {
    this.offers.push(offer);
    return super.offer(offer);
  }
}

async function open(t: TestContext, place: string, behaviours: Readonly<Record<string, Behaviour>>) {
  const clock = { now: () => NOW, monotonic: () => NOW - START, isMadeUp: true } as const;
  const env: Env = { ...realEnv(), clock };
  const database = place.startsWith('mariadb:') ? `{store: mariadb, mariadb: {url: "${place}"}}` : undefined;
  const config = loadConfig(database === undefined ? {} : { text: database });
  const store = configuredStore(config).open({ env, config, folder: place });
  const seats = THREAD_SEATS.map((info) => new Listener(info, behaviours));
  const settings = { ...runtimeSettings(config), drainMs: 20 };
  const brain = new Orchestrator({ env, store, backends: seats, settings });
  t.after(() => brain.stop());
  await brain.start();
  return { brain, seats };
}

onBothStores(
  'version 7: a turn still waits for the seat with its thread, also at a second opening, and goes on in it',
  async (t, place) => {
    const first = await open(t, place, THREAD_BEHAVIOURS);
    await eventually('the seats are known', async () => (await first.brain.get('talk-3')).waiting?.code === 'sticky');
    await first.brain.checkpoint();
    await first.brain.stop();
    const { brain, seats } = await open(t, place, { 'other:1': { ...answers('done'), isKnown: true } });
    assert.equal((await brain.wait('talk-3')).state, 'succeeded');
    const [left, right] = seats.map(({ offers }) => offers);
    assert.equal(left?.length, 0);
    assert.deepEqual(right?.map(({ conversation }) => conversation?.thread), [
      { backend: 'right', thread: 'https://chat.example/right/1', heard: 4, hash: 'right-after-4' },
    ]);
    assert.equal((await brain.reads.sessions.get('default', 'plain')).backend, 'left');
  },
  'v7',
);

test('version 7: the data hold sessions with threads and without', () => {
  const pieces = [
    /"v":3,.*"id":"talk"/,
    /"threads":\[\{"backend":"left","thread":"https:\/\/chat\.example\/left\/1","heard":2,"hash":"left-after-2"\}/,
    /"threads":\[\{"backend":"left","heard":2\}\]/,
  ];
  const dump = dumpOfTables('v7').replaceAll('\\', '');
  const log = ['0000000000000001', '0000000000000020'].map((name) =>
    readFileSync(join(goldenFolder('v7'), `journal/log/${name}.log`), 'utf8'),
  );
  for (const piece of pieces) {
    assert.match(dump, piece);
    assert.match(log.join(), piece);
  }
});
