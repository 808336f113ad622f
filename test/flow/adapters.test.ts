/** Worker pools with an adapter: a brain, its pool manager and workers with a real engine, each a process of its own. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { writeTinyAdapter, writeTinyModel } from '../fakes/gguf.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { LASTING, onStores, placed } from './flow-kit.ts';
import { testFolder } from './server-process.ts';
import { Client, eventually } from './site-client.ts';
import { endsOf, Site } from './site-kit.ts';

test('a real adapter changes the answers of a model, and jobs with and without it go to the right worker', async (context) => {
  const t = endsOf(context);
  const models = testFolder(t);
  const [file, lora] = [join(models, 'tiny.gguf'), join(models, 'lora.gguf')];
  writeTinyModel(file);
  writeTinyAdapter(lora, { as: 'tuned' });
  // What the adapter makes of the model is another model.
  writeTinyModel(join(models, 'tuned.gguf'), { salt: 'tuned' });
  const args = ['--threads', '1'];
  const engines = [{ match: 'file:*', engine: 'llama', args }];
  const site = await Site.start(t, { pool: { models: [models], engines, context_length: 256 } });
  const { client } = site;
  await client.register('m', { model_ref: `file:${file}`, vram_bytes: undefined, context_length: 256 });
  await client.register('n', {
    model_ref: `file:${models}/tuned.gguf`,
    vram_bytes: undefined,
    context_length: 256,
  });
  const sha256 = createHash('sha256').update(readFileSync(lora)).digest('hex');
  const spec = {
    model_id: 'm',
    adapter: `file:${lora}@sha256:${sha256}`,
    variant: 'fp32',
    desired_workers: 1,
  };
  const { serves } = await client.done('POST', '/workers/pool', { pool_id: 'tuned', ...spec });
  assert.equal(serves, 'm+lora+fp32');
  await eventually(
    'its worker runs',
    async () => (await client.done('GET', '/workers/pool/tuned')).status === 'running',
  );

  const answer = async (model: string) => {
    const job = await client.submit({ model, prompt: 'Hello', max_tokens: 12, temperature: 0 });
    const { result, attempts } = await client.becomes(job, 'succeeded');
    return { text: (result as { text: string }).text, worker: attempts[0]?.backend?.split('/')[1] ?? '' };
  };
  const [plain, tuned, other] = [await answer('m'), await answer(serves), await answer('n')];
  assert.notEqual(tuned.text, plain.text);
  assert.equal(tuned.text, other.text);
  assert.deepEqual([await answer('m'), await answer(serves)], [plain, tuned], 'again the same');
  const shown = await site.shown(tuned.worker);
  assert.equal(shown.model_ref, `file:${file}::adapter=${lora}@sha256:${sha256}::variant=fp32`);
  assert.equal((await site.shown(plain.worker)).model_ref, `file:${file}`);
  const health = (await (await fetch(`${shown.uri}/health`)).json()) as Record<string, unknown>;
  assert.deepEqual([health['adapter'], health['variant']], [lora, 'fp32']);
  const { data } = await client.done('GET', '/v1/models');
  assert.ok(data.some(({ id }: { id: string }) => id === serves));

  const { port } = site.brain;
  await site.brain.kill();
  await site.startBrain({ port });
  await site.heard();
  assert.deepEqual([await answer(serves), await answer('m')], [tuned, plain], 'of the same workers');
});

test('an adapter that cannot be applied is a problem of its pool, and its jobs fail with the code', async (context) => {
  const t = endsOf(context);
  const models = testFolder(t);
  const file = join(models, 'tiny.gguf');
  writeTinyModel(file);
  // Its header is right, and its matrices are for another model.
  writeTinyAdapter(join(models, 'narrow.gguf'), { as: 'x', width: 16 });
  writeFileSync(join(models, 'text.gguf'), 'no adapter');
  const config = { pools: { start_tries: 1 } };
  const site = await Site.start(t, { config, pool: { models: [models], context_length: 256 } });
  const { client } = site;
  await client.register('m', { model_ref: `file:${file}`, vram_bytes: undefined });
  await client.register('d');
  for (const [name, model, adapter, code] of [
    ['missing', 'm', join(models, 'none.gguf'), 'MODEL_NOT_FOUND'],
    ['outside', 'm', '/etc/passwd', 'MODEL_NOT_FOUND'],
    ['text', 'm', join(models, 'text.gguf'), 'ADAPTER_INVALID'],
    ['narrow', 'm', join(models, 'narrow.gguf'), 'WORKER_START_FAILED'],
    ['engine', 'd', join(models, 'narrow.gguf'), 'UNSUPPORTED'],
  ] as const) {
    const spec = { pool_id: name, model_id: model, adapter, desired_workers: 1 };
    const { serves } = await client.done('POST', '/workers/pool', spec);
    const job = await client.submit({ model: serves, prompt: 'x', priority: 'batch' });
    assert.equal((await client.becomes(job, 'dead')).error?.code, code, name);
    const { problem, status } = await client.done('GET', `/workers/pool/${name}`);
    assert.match(problem, new RegExp(`^a worker has failed to start: ${code}: .*(adapter|process)`), name);
    assert.equal(status, 'starting');
  }
});

describe('the model of a pool with an adapter', () => {
  onStores('lasts as long as the pool, also over restarts', LASTING, async (t, data) => {
    const client = new Client('');
    let brain = { stop: async () => {} };
    const restart = async (): Promise<void> => {
      await brain.stop();
      const next = await httpBrain({ ...placed({ data }), backends: [] });
      t.after(() => next.stop());
      brain = next;
      client.url = next.url;
    };
    const state = async (): Promise<string> =>
      (await client.done('GET', '/v2/catalog/models/m+lora')).lifecycle_state;
    await restart();
    await client.register('m', { size_bytes: 1 });
    const spec = { pool_id: 'w', model_id: 'm', adapter: '/l/lora.gguf' };
    assert.equal((await client.done('POST', '/workers/pool', spec)).serves, 'm+lora');
    await restart();
    const { base, model_ref } = await client.done('GET', '/v2/catalog/models/m+lora');
    assert.deepEqual([base, model_ref, await state()], ['m', 'demo:m::adapter=/l/lora.gguf', 'Active']);
    await client.done('POST', '/workers/pool/w/evict', {});
    await client.done('DELETE', '/workers/pool/w');
    await restart();
    assert.equal(await state(), 'Retired');
    const [status] = await client.refused('POST', '/v2/tasks', { model: 'm+lora', prompt: 'x' });
    assert.equal(status, 422);
  });
});
