/** Parts that do not answer, throw, or never let go: nobody waits for ever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runtimeSettings } from '../../src/app/settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { MemoryStore } from '../../src/stores/memory/memory.ts';
import {
  isDatabase,
  LASTING,
  onStores,
  refusalOf,
  STORES,
  start,
  startInline,
  turns,
  within,
} from './flow-kit.ts';
import { holdable } from './holding.ts';
import { Stage } from './stage.ts';

const QUICK = 'orchestrator: {recovery: {holder_lost_ms: 50, sweep_interval_ms: 20}}';

onStores(
  'a backend that gives no answer makes the attempt unknown, and is asked',
  STORES,
  async (t, data) => {
    const stage = new Stage();
    stage.answer = () => new Promise(() => undefined);
    const orchestrator = await start(t, { data, backends: [stage], config: QUICK });
    await orchestrator.submit({ job_id: 'a', on_unknown: 'hold' });
    while ((await orchestrator.get('a')).state === 'queued') await turns(1);
    while ((await orchestrator.get('a')).state === 'claimed') await turns(1);
    // Its memory is good, it never had the offer, and now it refuses it: the job may be offered again.
    stage.answer = () => undefined;
    await stage.startedCount(1);
    stage.endAll();
    assert.equal((await within(orchestrator.wait('a'))).state, 'succeeded');
  },
);

onStores(
  'a backend that throws, or calls something a result that is none, harms nobody else',
  STORES,
  async (t, data) => {
    const stage = new Stage({ name: 'bad', types: ['bad'] });
    stage.answer = () => {
      throw new Error('no');
    };
    stage.ack = () => {
      throw new Error('no');
    };
    const good = new Stage({ name: 'good', types: ['good'] });
    const config = QUICK;
    const orchestrator = await start(t, { data, backends: [stage, good], config });
    await orchestrator.submit({ job_id: 'thrown', type: 'bad' });
    await turns(50);
    stage.answer = () => undefined;
    await stage.startedCount(1);
    stage.end(stage.runningTokens[0] as string, { ok: true, resultText: 'no JSON' });
    const spoiled = await within(orchestrator.wait('thrown'));
    assert.deepEqual([spoiled.state, spoiled.error?.code], ['dead', 'WORKER_PROTOCOL']);
    await orchestrator.submit({ job_id: 'fine', type: 'good' });
    await good.startedCount(1);
    good.endAll();
    assert.equal((await within(orchestrator.wait('fine'))).state, 'succeeded');
  },
);

onStores('a stop ends although nothing becomes durable any more', LASTING, async (t, data) => {
  const held = holdable(data);
  t.after(() => held.release());
  const { timers } = held.env;
  const env = {
    ...held.env,
    timers: { ...timers, after: (_: number, run: () => void) => timers.after(1, run) },
  };
  const begin = isDatabase(data) ? start : startInline;
  const orchestrator = await begin(t, { data, env, backends: [] });
  await held.hold();
  const refused = refusalOf(() => orchestrator.submit({}));
  await held.commitWaits();
  const stopped = orchestrator.stop();
  assert.equal((await within(refused)).code, 'SHUTTING_DOWN');
  await held.release();
  await within(stopped);
});

test('callers of a turn that fails are told, with a code', async () => {
  const store = new MemoryStore(realEnv().timers);
  const settings = runtimeSettings(loadConfig({}));
  const orchestrator = new Orchestrator({ env: realEnv(), store, backends: [], settings });
  await orchestrator.start();
  store.append = () => {
    throw new RangeError('too long');
  };
  const [first, second] = await Promise.all([
    refusalOf(() => orchestrator.submit({})),
    refusalOf(() => orchestrator.submit({})),
  ]);
  assert.deepEqual([first.code, second.code], ['INTERNAL', 'INTERNAL']);
  await within(orchestrator.stop());
});

onStores('what cannot be an id names no job, in whichever tenant', STORES, async (t, data) => {
  const orchestrator = await start(t, { data, backends: [] });
  await orchestrator.submit({ job_id: 'secret' }, { tenant: 'acme' });
  for (const call of [
    () => orchestrator.get('acme~secret'),
    () => orchestrator.cancel('acme~secret'),
    () => orchestrator.wait('acme~secret'),
  ]) {
    assert.equal((await refusalOf(call)).code, 'NOT_FOUND');
  }
  assert.equal((await orchestrator.get('secret', 'acme')).state, 'queued');
});
