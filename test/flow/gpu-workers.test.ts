/** Workers on a GPU that a fake nvidia-smi pretends: the memory that they have, and an engine that cannot use the GPU. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeTinyModel } from '../fakes/gguf.ts';
import { fakeGpu, OTHERS_MIB, serversOf, TOTAL_MIB } from '../fakes/gpu.ts';
import { testFolder } from './server-process.ts';
import { eventually, MIB } from './site-client.ts';
import { endsOf, poolProcess, Site } from './site-kit.ts';

const UPSTREAM = join(import.meta.dirname, '..', 'fakes', 'openai-upstream.ts');
/** An upstream that writes its pid and the memory that it takes, as its model is called, then serves. */
const serverArgs = (folder: string): string[] => [
  '--upstream-command',
  JSON.stringify([
    ...['sh', '-c', `echo "$$, \${1#takes-}" > "${serversOf(folder)}/$1"; shift; exec "$@"`, 'sh'],
    ...['{model}', process.execPath, UPSTREAM, '{port}'],
  ]),
];

for (const [how, namesProcesses] of [
  ['by process', true],
  ['by the difference where the driver names no process of this machine', false],
] as const) {
  test(`the memory of a server behind a worker is measured ${how}, and counts once`, async (context) => {
    const t = endsOf(context);
    const folder = testFolder(t);
    const env = fakeGpu(folder, namesProcesses);
    const engines = [{ match: 'openai:*', engine: 'openai', args: serverArgs(folder) }];
    const config = { cpu_memory: 0, device_poll_ms: 50, engines };
    const site = await Site.start(t, { pool: config, env });
    const { caller } = site.pool;
    // Registered without vram_bytes: what is reserved is an estimate, far too low for the first and too high for the second.
    for (const [at, mib] of [3000, 40].entries()) {
      const id = `takes-${mib}`;
      await site.client.register(id, { model_ref: `openai:${id}`, vram_bytes: undefined, size_bytes: 0 });
      const job = await site.client.submit({ model: id, prompt: 'Hello' });
      await site.client.becomes(job, 'succeeded');
      const used = [3000, 40].slice(0, at + 1).reduce((sum, each) => sum + each, 0);
      await caller.until(
        ({ gpus: [gpu], workers }) =>
          workers.some(({ status, vram_used }) => status === 'ready' && vram_used === mib * MIB) &&
          gpu?.allocated_vram === used * MIB &&
          gpu.available_vram === (TOTAL_MIB - OTHERS_MIB - used) * MIB,
      );
    }
    const sizes = await eventually('the brain has learned the size', async () => {
      const { body } = await site.client.ask('GET', '/v2/catalog/models/takes-3000');
      return body.vram_bytes === 3000 * MIB && body;
    });
    assert.equal(sizes.model_id, 'takes-3000');
  });
}

test('a worker on a GPU that its engine cannot use fails, and everybody hears why', async (context) => {
  const t = endsOf(context);
  const folder = testFolder(t);
  const env = fakeGpu(folder, true);
  const file = join(folder, 'tiny.gguf');
  writeTinyModel(file, {});
  const site = await Site.start(t, { pool: { cpu_memory: 0, models: [folder] }, env });
  await site.client.register('m', { model_ref: `file:${file}`, vram_bytes: undefined });
  const why = /on the processor instead of the GPU: node-llama-cpp .*allow_cpu_fallback/;
  const first = await site.client.submit({ model: 'm', prompt: 'Hello' });
  const failed = await site.client.becomes(first, 'dead');
  assert.equal(failed.error?.code, 'WORKER_START_FAILED');
  assert.match(failed.error?.message ?? '', why);
  assert.ok(!failed.error?.message.includes(folder), 'no folder of the machine is told');
  const second = await site.client.submit({ model: 'm', prompt: 'Hello' });
  const waiting = await site.client.job(second);
  assert.equal(waiting.state, 'queued', 'it is not tried again at once');
  assert.match(JSON.stringify(waiting), /its worker failed to start: .*on the processor instead of the GPU/);

  const other = await poolProcess(t, {
    folder,
    id: 'other',
    env,
    config: { cpu_memory: 0, models: [folder] },
  });
  await other.caller.start('w', `file:${file}`, { vram_bytes: undefined });
  assert.match((await other.caller.becomes('w', 'failed')).error?.message ?? '', why);
});

test('a pool that allows it runs the model on the processor', async (context) => {
  const t = endsOf(context);
  const folder = testFolder(t);
  const file = join(folder, 'tiny.gguf');
  writeTinyModel(file, {});
  const config = { cpu_memory: 0, models: [folder], allow_cpu_fallback: true };
  const { caller } = await poolProcess(t, { folder, env: fakeGpu(folder, true), config });
  await caller.start('w', `file:${file}`, { vram_bytes: undefined });
  await caller.becomes('w', 'ready');
  const log = join(folder, 'box', 'logs', 'w.log');
  assert.ok(existsSync(log) && /ready: .*, \d+ CPU threads/.test(readFileSync(log, 'utf8')));
});

test('workers and leases share one GPU: neither gets memory that the other has', async (context) => {
  const t = endsOf(context);
  const folder = testFolder(t);
  const engines = [{ match: 'openai:*', engine: 'openai', args: serverArgs(folder) }];
  const config = { cpu_memory: 0, device_poll_ms: 50, engines };
  const site = await Site.start(t, { pool: config, env: fakeGpu(folder, true) });
  const { client } = site;
  const lease = async (min_memory_mb: number): Promise<{ token: string; place: unknown[] }> => {
    const { status, body } = await client.ask('POST', '/leases', { pool: 'box', min_memory_mb });
    assert.equal(status, 200, JSON.stringify(body));
    return { token: body.token, place: [body.pool, body.gpu_index, body.mode] };
  };
  const held = await lease(6000);
  assert.deepEqual(held.place, ['box', 0, 'gpu']);
  const [gpu] = (await client.ask('GET', '/v2/pools')).body.pools[0].gpus;
  assert.deepEqual([gpu.leased_vram, gpu.available_vram], [6000 * MIB, (TOTAL_MIB - OTHERS_MIB) * MIB]);
  await client.register('takes-4000', { model_ref: 'openai:takes-4000', vram_bytes: 4000 * MIB });
  const job = await client.submit({ model: 'takes-4000', prompt: 'Hello' });
  // What its holder uses is counted once: if it were counted twice, not even the lease would fit.
  writeFileSync(join(serversOf(folder), 'holder'), '2147483646, 6000\n');
  await site.pool.caller.until(({ gpus: [each] }) => each?.available_vram === 3000 * MIB);
  assert.deepEqual((await lease(3001)).place, [null, null, 'cpu']);
  const second = await lease(3000);
  assert.deepEqual(second.place, ['box', 0, 'gpu']);
  assert.equal((await client.job(job)).state, 'queued');
  writeFileSync(join(serversOf(folder), 'holder'), '');
  for (const { token } of [held, second])
    assert.equal((await client.ask('POST', `/leases/${token}/release`, {})).status, 200);
  await client.becomes(job, 'succeeded');
  assert.deepEqual((await lease(6000)).place, [null, null, 'cpu'], 'the worker has its memory');
  assert.deepEqual((await lease(4000)).place, ['box', 0, 'gpu']);
});
