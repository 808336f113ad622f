/**
 * The gates of admission with processes: a brain, a pool manager with a GPU that a fake nvidia-smi pretends, and one
 * without a GPU, whose workers run a real model on the processor.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { WorkerState } from '../../src/model/pool-wire.ts';
import { writeTinyModel } from '../fakes/gguf.ts';
import { fakeGpu, setOthers, TOTAL_MIB } from '../fakes/gpu.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { LASTING, onStores, placed } from './flow-kit.ts';
import { testFolder } from './server-process.ts';
import { Client, eventually, MIB } from './site-client.ts';
import { poolProcess, QUICK, Shared, Site, words } from './site-kit.ts';

const shared = new Shared();
const folder = testFolder(shared);
const models = join(folder, 'models');
const REF = `file:${models}/tiny.gguf`;
const SMALL = { vram_bytes: 100 * MIB, context_length: 8192 };
/** Runs for minutes in the engine of the GPU, which says five words a second. */
const LONG = { prompt: words(1000), on_disconnect: 'continue' };
const SHORT = { prompt: 'Hello', max_tokens: 6, temperature: 0, on_disconnect: 'continue' };
let site: Site;
let client: Client;

before(async () => {
  mkdirSync(models);
  writeTinyModel(join(models, 'tiny.gguf'), { contextLength: 8192 });
  const pools = { ...QUICK.pools, scale_up_wait_sec: 86_400, drain_after_sec: 86_400 };
  site = await Site.start(shared, {
    config: { pools },
    pool: {
      ...{ cpu_memory: 0, device_poll_ms: 50, models: [models] },
      engines: [{ match: 'file:*', engine: 'demo' }],
    },
    delayMs: 200,
    env: fakeGpu(folder),
  });
  client = site.client;
  await poolProcess(shared, {
    ...{ folder, id: 'slow', brain: site.brain.url },
    config: { models: [models], labels: { device: 'cpu' }, worker_args: ['--threads', '1'] },
  });
  await site.heard('ok', 'slow');
  await client.register('m', { ...SMALL, model_ref: REF, slots: 1 });
});

after(() => shared.end());

const set = (gates: object): Promise<unknown> =>
  client.done('PUT', '/control/policy', { gates, why: 'a test' });
const cancel = async (...jobs: string[]): Promise<void> => {
  for (const job of jobs) {
    await client.done('POST', `/v2/tasks/${job}/cancel`, {});
    await client.becomes(job, 'cancelled');
  }
};
const placeOf = async (job: string, state = 'succeeded'): Promise<string | undefined> =>
  (await client.becomes(job, state)).attempts[0]?.backend?.split('/')[0];
const workersOf = async (pool: string, model: string): Promise<WorkerState[]> =>
  (await client.workers(pool)).filter(({ model_ref }) => model_ref === model);

describe('too many waiting jobs', () => {
  test('[NEWS-9] with on_depth cpu run on a worker without a GPU too, and only while there are too many', async () => {
    await set({ queue_depth: { close_above: 2, open_below: 1, on_depth: 'cpu' } });
    const first = await client.submit({ model: 'm', ...LONG });
    assert.equal(await placeOf(first, 'running'), 'box');
    const waiting = [
      await client.submit({ model: 'm', ...SHORT }),
      await client.submit({ model: 'm', ...SHORT }),
    ];
    for (const job of waiting) assert.equal((await client.job(job)).state, 'queued');
    assert.deepEqual(await client.workers('slow'), [], 'two wait');
    waiting.push(await client.submit({ model: 'm', ...SHORT }));
    for (const job of waiting) {
      assert.equal(await placeOf(job), 'slow');
      const { text } = (await client.job(job)).result as { text: string };
      assert.match(text, /^( [a-z]+){6}$/, 'the words of the real model');
    }
    const later = await client.submit({ model: 'm', ...SHORT });
    assert.equal((await client.job(later)).state, 'queued', 'the worker without a GPU is idle, and is kept');
    const asks = await client.submit({ model: 'm', ...SHORT, labels: { device: 'cpu' } });
    assert.equal(await placeOf(asks), 'slow');
    await cancel(first);
    assert.equal(await placeOf(later), 'box');
  });

  test('[NEWS-9] with on_depth scale_up have more workers started', async () => {
    await set({ queue_depth: { close_above: 2, open_below: 2, on_depth: 'scale_up' } });
    await client.register('s', { ...SMALL, slots: 1 });
    const jobs = [await client.submit({ model: 's', ...LONG })];
    await client.becomes(jobs[0] ?? '', 'running');
    for (let n = 0; n < 2; n++) jobs.push(await client.submit({ model: 's', ...LONG }));
    assert.equal((await workersOf('box', 'demo:s')).length, 1, 'two wait');
    jobs.push(await client.submit({ model: 's', ...LONG }));
    for (const job of jobs.slice(0, 3)) await client.becomes(job, 'running');
    await cancel(...jobs);
  });

  test('[NEWS-9] with on_depth reject are refused with 429 and the reason, until fewer wait', async () => {
    await set({ queue_depth: { close_above: 2, open_below: 2, on_depth: 'reject' } });
    const job = { type: 'nobody', wait_for_backend: true };
    const jobs = [await client.submit(job), await client.submit(job), await client.submit(job)];
    const { status, body } = await client.ask('POST', '/v2/tasks', job);
    const { code, reason } = body.error;
    assert.deepEqual(
      [status, code, reason, body.policy_label],
      [...[429, 'RATE_LIMITED', 'queue_depth'], 'gates.queue_depth'],
    );
    await cancel(...jobs.slice(0, 1));
    assert.equal((await client.ask('POST', '/v2/tasks', job)).status, 429, 'two wait');
    await cancel(...jobs.slice(1, 2));
    jobs.push(await client.submit(job));
    await cancel(...jobs.slice(2));
  });
});

test('[NEWS-9] over 90 % of the GPU memory no worker is started; jobs whose model is loaded pass', async () => {
  await set({ gpu_memory: { close_above: 90, open_below: 80 } });
  // Too large for the pool without a GPU.
  await client.register('large', { ...SMALL, vram_bytes: 2000 * MIB });
  await client.register('loaded', { ...SMALL, slots: 2 });
  const busy = await client.submit({ model: 'loaded', ...LONG });
  await client.becomes(busy, 'running');
  const used = async (others: number, least: number): Promise<void> => {
    setOthers(folder, others);
    await eventually(`the brain knows that ${others} MiB are used`, async () => {
      const { pools } = await client.done('GET', '/v2/pools');
      const [gpu] = pools.find(({ pool_id }: { pool_id: string }) => pool_id === 'box').gpus;
      const percent = 100 * (1 - gpu.available_vram / (TOTAL_MIB * MIB));
      return percent > least && percent < least + 10;
    });
  };
  await used(9100, 90);
  const needs = await client.submit({ model: 'large', ...SHORT });
  assert.match(
    (await client.job(needs)).waiting?.text ?? '',
    /^no worker is started while 9\d % of the GPU memory/,
  );
  assert.equal(await placeOf(await client.submit({ model: 'loaded', ...SHORT })), 'box');
  await used(8200, 80);
  assert.equal((await client.job(needs)).state, 'queued', 'it opens below 80 %');
  assert.deepEqual(await workersOf('box', 'demo:large'), []);
  setOthers(folder, 1000);
  assert.equal(await placeOf(needs), 'box');
  await cancel(busy);
});

describe('the token bucket of an agent', () => {
  const config = 'limits:\n  - {scope: "agent:*", requests_per_sec: 0.001, burst_requests: 3}\n';

  onStores(
    '[NEWS-9] is as empty after a restart as before it; others have one of their own',
    LASTING,
    async (t, data) => {
      const agent = new Client('');
      const open = async () => {
        const brain = await httpBrain({ ...placed({ data, config }), backends: [] });
        t.after(() => brain.stop());
        agent.url = brain.url;
        return brain;
      };
      const asks = async (name: string): Promise<number> => {
        const job = { type: 't', agent: name, wait_for_backend: true };
        return (await agent.ask('POST', '/v2/tasks', job)).status;
      };
      const brain = await open();
      assert.deepEqual([await asks('ann'), await asks('ann')], [202, 202]);
      assert.equal(await asks('bob'), 202);
      await brain.stop();
      await open();
      assert.deepEqual([await asks('ann'), await asks('ann')], [202, 429]);
      assert.deepEqual([await asks('bob'), await asks('bob'), await asks('bob')], [202, 202, 429]);
    },
  );
});
