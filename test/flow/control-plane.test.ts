/** The brain as a control plane: no device of its own, one surface for clients and operators, and who is let in. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { readFiles } from '../architecture/source.ts';
import { orchd, start } from './cli-process.ts';
import { serve, testFolder } from './server-process.ts';
import { eventually, MIB } from './site-client.ts';
import { endsOf, poolProcess, Site } from './site-kit.ts';

test('the brain runs where there is no GPU: all that it knows of devices it was told by pool managers', async (context) => {
  const t = endsOf(context);
  const site = await Site.start(t);
  const bin = join(site.folder, 'bin');
  mkdirSync(bin);
  const smi = join(bin, 'nvidia-smi');
  writeFileSync(smi, '#!/bin/sh\necho "0, NVIDIA Imaginary 9000, 24576, 1024, 23552"\n');
  chmodSync(smi, 0o755);
  const env = { PATH: `${bin}${delimiter}${process.env['PATH']}` };
  await poolProcess(t, {
    folder: site.folder,
    id: 'gpu',
    brain: site.brain.url,
    config: { cpu_memory: 0 },
    env,
  });
  await site.heard('ok', 'gpu');
  const { body } = await site.client.ask('GET', '/v2/pools/gpu/health');
  assert.deepEqual(
    body.gpus.map((gpu: { id: number; total_vram: number }) => [gpu.id, gpu.total_vram]),
    [[0, 24_576 * MIB]],
  );
  const brains = /^src\/(core|runtime|stores|backends|relay|wire)\/.*\.ts$/;
  const root = join(import.meta.dirname, '..', '..');
  const touching = [...readFiles(root, 'src')]
    .filter(([path, text]) => brains.test(path) && /nvidia-smi|cuda/i.test(text))
    .map(([path]) => path);
  assert.deepEqual(touching, [], 'only daemons touch devices');
});

test('[ORCH-1003] one HTTP surface for submitting, streaming, the catalog and observing', async (context) => {
  const t = endsOf(context);
  const site = await Site.start(t, { delayMs: 1 });
  const { client } = site;
  await client.register('m', { model_ref: 'demo:m', vram_bytes: MIB });
  assert.equal((await client.ask('GET', '/v2/catalog/models/m')).body.lifecycle_state, 'Active');
  const job = await client.submit({ model: 'm', prompt: 'hello' });
  const stream = await fetch(`${site.brain.url}/v2/tasks/${job}/events`);
  assert.match(stream.headers.get('content-type') ?? '', /^text\/event-stream(;|$)/);
  await stream.body?.cancel();
  const follow = await client.follow(job);
  const end = await follow.end();
  assert.equal(end.event, 'end');
  assert.match(follow.text, /hello/);
  assert.equal((await client.ask('GET', '/health')).body.status, 'ok');
  const metrics = await (await fetch(`${site.brain.url}/metrics`)).text();
  assert.match(metrics, /^orchd_tasks_enqueued_total\{outcome="accepted"\} 1$/m);
  await client.done('POST', '/v2/catalog/models/m/state', { state: 'Retired' });
  assert.deepEqual(
    (await client.done('GET', '/v2/catalog/models')).models.map(
      ({ model_id, lifecycle_state }: Record<string, string>) => [model_id, lifecycle_state],
    ),
    [['m', 'Retired']],
  );
  const refused = await client.refused('POST', '/v2/tasks', { model: 'm', prompt: 'hello' });
  assert.deepEqual(refused, [422, 'ADMISSION_REJECT']);
});

test('[ORCH-1130] at home nobody needs a token and nobody else gets in; with tokens everybody needs one', async (t) => {
  const data = join(testFolder(t), 'data');
  const open = await serve(t, { data });
  const status = async (url: string, token?: string): Promise<number> => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return (await fetch(`${url}/v2/tasks`, { headers })).status;
  };
  assert.equal(await status(open.url), 200);
  const { out } = await orchd(['token', 'create', 'me', '--role', 'read', '--data', data, '--json']);
  const { token } = JSON.parse(out) as { token: string };
  await eventually('the token counts', async () => (await status(open.url)) === 401);
  assert.equal(await status(open.url, token), 200);
  const other = token.endsWith('0') ? '1' : '0';
  assert.equal(await status(open.url, `${token.slice(0, -1)}${other}`), 401, 'one of its form, and wrong');
  const elsewhere = join(testFolder(t), 'data');
  const refused = await orchd(['up', '--data', elsewhere, '--port', '0', '--host', '0.0.0.0']);
  assert.equal(refused.code, 2);
  assert.match(refused.err, /can be reached from other machines, so callers need a token/);
});

test('[ORCH-1140] the server listens at the bind_addr of its configuration', async (t) => {
  const probe = createServer().listen(0, '127.0.0.2');
  await once(probe, 'listening');
  const address = `127.0.0.2:${(probe.address() as AddressInfo).port}`;
  await new Promise((resolve) => probe.close(resolve));
  const folder = testFolder(t);
  const file = join(folder, 'config.yaml');
  writeFileSync(file, `orchestrator: { bind_addr: "${address}" }`);
  const server = start(['up', '--config', file, '--data', join(folder, 'data')]);
  t.after(async () => {
    server.child.kill('SIGKILL');
    await server.ended;
  });
  await server.saw('err', new RegExp(`listens on http://${address}`));
  assert.equal((await fetch(`http://${address}/health`)).status, 200);
});
