/** A pool manager finds models in their places, and checks that they are what they should be. */
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readEvents } from '../../src/wire/sse.ts';
import { writeTinyAdapter, writeTinyModel } from '../fakes/gguf.ts';
import { ggufHeader } from '../fakes/gguf-header.ts';
import { fakeHub, SHA } from '../fakes/hub.ts';
import { type Answered, type PoolCaller, pool, poolFolder, WORKER_COMMAND } from '../fakes/pool-kit.ts';

const MODEL = Buffer.concat([
  ggufHeader({
    'general.architecture': 'llama',
    'llama.context_length': 4096,
    'llama.block_count': 2,
    'llama.embedding_length': 64,
    'llama.attention.head_count': 4,
  }),
  Buffer.alloc(3 * 2 ** 20, 'tensor'),
]);

/** Memory figures from the header of the model and from the pool. */
const ENGINE = { kv_bytes_per_token: 512, slots: 4 };

const resolve = (caller: PoolCaller, model_ref: string): Promise<Answered> =>
  caller.ask('POST', '/v2/models/resolve', { model_ref });

async function refused(caller: PoolCaller, ref: string, code = 'MODEL_NOT_FOUND'): Promise<string> {
  const { body } = await resolve(caller, ref);
  assert.equal(body.error?.code, code, `${ref}: ${JSON.stringify(body)}`);
  return body.error.message;
}

test('a file is found inside of the folders that were named, and nowhere else', async (t) => {
  const data = poolFolder(t);
  const models = join(data, 'models');
  mkdirSync(join(models, 'deep'), { recursive: true });
  mkdirSync(join(data, 'models-of-others'));
  writeFileSync(join(models, 'deep', 'a.gguf'), MODEL);
  writeFileSync(join(data, 'outside.gguf'), MODEL);
  writeFileSync(join(data, 'models-of-others', 'b.gguf'), MODEL);
  symlinkSync('deep/a.gguf', join(models, 'inside.gguf'));
  symlinkSync('../outside.gguf', join(models, 'outside.gguf'));
  symlinkSync('..', join(models, 'up'));
  symlinkSync('loop.gguf', join(models, 'loop.gguf'));
  const caller = await pool(t, join(data, 'pool'), { models: [models, join(data, 'not-there')] });
  for (const name of ['deep/a.gguf', 'inside.gguf']) {
    const ref = `file:${models}/${name}`;
    assert.deepEqual((await resolve(caller, ref)).body, {
      model_ref: ref,
      size_bytes: MODEL.length,
      context_length: 4096,
      ...ENGINE,
    });
  }
  const names = ['outside.gguf', 'up/outside.gguf', 'loop.gguf', 'deep', 'nothing.gguf'];
  const outside = [...names.map((name) => `${models}/${name}`), `${data}/outside.gguf`];
  const messages = new Set<string>();
  for (const path of [...outside, `${data}/models-of-others/b.gguf`, '/etc/passwd']) {
    messages.add(await refused(caller, `file:${path}`));
  }
  assert.equal(messages.size, 1, 'it does not tell what is there from what is not');
  await refused(caller, `file:${models}/../outside.gguf`, 'INVALID_PARAMS');
  assert.deepEqual((await resolve(caller, 'demo:x')).body, { model_ref: 'demo:x', size_bytes: 0, slots: 4 });
});

test('an adapter is a LoRA file for the model, inside of the folders, with its digest: else its worker is not started', async (t) => {
  const data = poolFolder(t);
  const models = join(data, 'models');
  mkdirSync(models);
  const model = join(models, 'm.gguf');
  const lora = join(models, 'lora.gguf');
  writeTinyModel(model);
  writeTinyAdapter(lora, { as: 'x' });
  writeTinyAdapter(join(data, 'outside.gguf'), { as: 'x' });
  symlinkSync('../outside.gguf', join(models, 'link.gguf'));
  writeTinyAdapter(join(models, 'qwen.gguf'), { as: 'x', architecture: 'qwen2' });
  writeTinyAdapter(join(models, 'control.gguf'), { as: 'x', type: 'control_vector' });
  writeFileSync(join(models, 'text.gguf'), 'no adapter at all');
  const config = { models: [models], worker_command: [...WORKER_COMMAND, '--lora', '{adapter}'] };
  const caller = await pool(t, join(data, 'pool'), config);
  const sha256 = createHash('sha256').update(readFileSync(lora)).digest('hex');
  for (const [adapter, code] of [
    [join(models, 'none.gguf'), 'MODEL_NOT_FOUND'],
    [join(data, 'outside.gguf'), 'MODEL_NOT_FOUND'],
    [join(models, 'link.gguf'), 'MODEL_NOT_FOUND'],
    [models, 'MODEL_NOT_FOUND'],
    [`${models}/../outside.gguf`, 'INVALID_PARAMS'],
    [model, 'ADAPTER_INVALID'],
    [join(models, 'text.gguf'), 'ADAPTER_INVALID'],
    [join(models, 'control.gguf'), 'ADAPTER_INVALID'],
    [join(models, 'qwen.gguf'), 'ADAPTER_INVALID'],
    [`${lora}@sha256:${sha256.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))}`, 'MODEL_UNVERIFIED'],
    [`${lora}@sha256:${sha256}`, undefined],
    [lora, undefined],
  ] as const) {
    const ref = `file:${model}::adapter=${adapter}`;
    const id = code === undefined ? `w${caller.epoch++}` : 'refused';
    const { body } = await caller.start(id, ref);
    assert.equal(body.error?.code, code, `${adapter}: ${JSON.stringify(body)}`);
    if (code === undefined) assert.equal((await resolve(caller, ref)).body.model_ref, ref);
    else assert.equal(await caller.worker('refused'), undefined);
  }
});

test('what a model needs is taken from its file and its header where the order does not say it', async (t) => {
  const data = poolFolder(t);
  writeFileSync(join(data, 'a.gguf'), MODEL);
  const caller = await pool(t, join(data, 'pool'), { models: [data], context_length: 1000, slots: 3 });
  const order = { worker_id: 'w1', model_ref: `file:${data}/a.gguf`, gpu_id: 0 };
  assert.equal((await caller.ask('POST', '/v2/workers/start', order)).status, 200);
  const keysAndValues = 2 * 4 * (16 + 16) * 2 * 1000 * 3;
  assert.equal(
    (await caller.worker('w1'))?.vram_used,
    Math.ceil(MODEL.length * 1.1 + keysAndValues + 256 * 2 ** 20),
  );
});

test('the cache of the hub is read as its tools write it: a revision is pinned, a file is chosen', async (t) => {
  const data = poolFolder(t);
  const cache = join(data, 'hub');
  const repo = join(cache, 'models--org--repo');
  const snapshot = join(repo, 'snapshots', SHA);
  for (const folder of ['blobs', 'refs', `snapshots/${SHA}/q8`])
    mkdirSync(join(repo, folder), { recursive: true });
  writeFileSync(join(repo, 'refs', 'main'), `${SHA}\n`);
  writeFileSync(join(repo, 'refs', 'broken'), '../../../etc');
  writeFileSync(join(repo, 'blobs', 'b1'), MODEL);
  writeFileSync(join(data, 'outside.gguf'), 'x');
  const linked = ['a-Q8_0.gguf', 'b-Q4_K_M.gguf', 'mmproj-a.gguf', 'c-00002-of-00002.gguf', 'README.md'];
  for (const name of linked) symlinkSync('../../blobs/b1', join(snapshot, name));
  symlinkSync('../../../blobs/b1', join(snapshot, 'q8', 'deep.gguf'));
  symlinkSync('../../../../outside.gguf', join(snapshot, 'evil.gguf'));
  const caller = await pool(t, join(data, 'pool'), { hf_cache: cache });
  const pinned = (file: string) => `hf:org/repo@${SHA}::file=${file}`;
  for (const [ref, file] of [
    ['hf:org/repo', 'b-Q4_K_M.gguf'],
    ['hf:org/repo@main', 'b-Q4_K_M.gguf'],
    [`hf:org/repo@${SHA}`, 'b-Q4_K_M.gguf'],
    ['hf:org/repo::file=q8/deep.gguf', 'q8/deep.gguf'],
    ['hf:org/repo@main::file=a-Q8_0.gguf', 'a-Q8_0.gguf'],
  ] as const) {
    const { body } = await resolve(caller, ref);
    assert.deepEqual(
      body,
      { model_ref: pinned(file), size_bytes: MODEL.length, context_length: 4096, ...ENGINE },
      ref,
    );
    assert.deepEqual((await resolve(caller, body.model_ref)).body, body, 'what is pinned stays');
  }
  for (const ref of ['hf:org/other', 'hf:org/repo@v2', 'hf:org/repo@broken', 'hf:org/repo::file=none.gguf']) {
    await refused(caller, ref);
  }
  await refused(caller, 'hf:org/repo::file=evil.gguf');
});

test('a model that is not in the cache is fetched once, checked, and lies there as the tools would have put it', async (t) => {
  const data = poolFolder(t);
  const hub = await fakeHub(t, { 'm-Q4_K_M.gguf': MODEL, 'q8/big file.gguf': MODEL, 'q8/big.gguf': MODEL });
  const caller = await pool(t, join(data, 'pool'), { hf_cache: join(data, 'hub'), hf_endpoint: hub.url });
  const answers = await Promise.all(Array.from({ length: 5 }, () => resolve(caller, 'hf:org/repo')));
  for (const { body } of answers) {
    assert.deepEqual(body, {
      model_ref: `hf:org/repo@${SHA}::file=m-Q4_K_M.gguf`,
      size_bytes: MODEL.length,
      context_length: 4096,
      ...ENGINE,
    });
  }
  assert.equal(hub.asked.filter((url) => url.includes('/resolve/')).length, 1);
  const repo = join(data, 'hub', 'models--org--repo');
  const sha256 = createHash('sha256').update(MODEL).digest('hex');
  assert.equal(readlinkSync(join(repo, 'snapshots', SHA, 'm-Q4_K_M.gguf')), `../../blobs/${sha256}`);
  assert.deepEqual(readdirSync(join(repo, 'blobs')), [sha256]);
  assert.equal(readFileSync(join(repo, 'refs', 'main'), 'utf8'), SHA);
  const asked = hub.asked.length;
  assert.equal((await resolve(caller, 'hf:org/repo')).status, 200);
  assert.equal(hub.asked.length, asked, 'what is here is not asked for');
  assert.equal((await resolve(caller, 'hf:org/repo::file=q8/big.gguf')).status, 200);
  await refused(caller, 'hf:org/repo@gone');
  await refused(caller, 'hf:org/repo::file=none.gguf');
  await refused(caller, 'hf:org/nothing');
});

test('a download is sent on once, to a host that was named; one that is not whole leaves nothing', async (t) => {
  const data = poolFolder(t);
  const hub = await fakeHub(t, { 'm.gguf': MODEL });
  hub.redirects = true;
  const config = { hf_cache: join(data, 'hub'), hf_endpoint: hub.url };
  const strict = await pool(t, join(data, 'strict'), config);
  const message = await refused(strict, 'hf:org/repo');
  assert.match(
    message,
    new RegExp(`sends the download on to ${new URL(hub.cdn).host}, which hf_redirect_hosts`),
  );
  const caller = await pool(t, join(data, 'pool'), { ...config, hf_redirect_hosts: [new URL(hub.cdn).host] });
  hub.how = 'short';
  await refused(caller, 'hf:org/repo', 'MODEL_UNVERIFIED');
  hub.isSmall = true;
  await refused(caller, 'hf:org/repo', 'MODEL_UNVERIFIED');
  hub.isSmall = false;
  hub.how = 'garbled';
  await refused(caller, 'hf:org/repo', 'MODEL_UNVERIFIED');
  hub.how = 'gone';
  await refused(caller, 'hf:org/repo');
  hub.how = 'twice';
  await refused(caller, 'hf:org/repo', 'WORKER_PROTOCOL');
  assert.deepEqual(readdirSync(join(data, 'hub', 'models--org--repo', 'blobs')), []);
  hub.how = 'well';
  assert.equal((await resolve(caller, 'hf:org/repo')).status, 200);
});

async function verify(
  caller: PoolCaller,
  body: object,
): Promise<{ event: string; data: Record<string, unknown> }[]> {
  const response = await fetch(`${caller.url}/v2/models/verify`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200);
  const events: { event: string; data: Record<string, unknown> }[] = [];
  for await (const { event, data } of readEvents(response.body!))
    events.push({ event, data: JSON.parse(data) });
  return events;
}

test('a file passes or fails by its checksum and by a signature of it', async (t) => {
  const data = poolFolder(t);
  writeFileSync(join(data, 'a.gguf'), MODEL);
  const caller = await pool(t, join(data, 'pool'), { models: [data] });
  const model_ref = `file:${data}/a.gguf`;
  const digest = createHash('sha256').update(MODEL).digest();
  const sha256 = digest.toString('hex');
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { x } = publicKey.export({ format: 'jwk' }) as { x: string };
  const public_key = Buffer.from(x, 'base64url').toString('base64');
  const signature = sign(null, digest, privateKey).toString('base64');
  const other = sign(null, Buffer.alloc(32), privateKey).toString('base64');
  const verdicts = {
    none: [{}, 'none', 'none'],
    both: [{ sha256, signature, public_key }, 'pass', 'pass'],
    'another checksum': [{ sha256: '0'.repeat(64) }, 'fail', 'none'],
    'another signature': [{ sha256, signature: other, public_key }, 'pass', 'fail'],
    'another key': [{ signature, public_key: Buffer.alloc(32, 7).toString('base64') }, 'none', 'fail'],
  } as const;
  for (const [name, [asked, checksum, signed]] of Object.entries(verdicts)) {
    const events = await verify(caller, { model_ref, ...asked });
    const { event, data: end } = events.at(-1)!;
    assert.deepEqual(
      [event, end],
      ['end', { sha256, size_bytes: MODEL.length, checksum, signature: signed }],
      name,
    );
    const progress = events.slice(0, -1);
    assert.ok(progress.every((each) => each.event === 'progress'));
    assert.deepEqual(progress.at(-1)?.data, { bytes: MODEL.length, total: MODEL.length });
  }
  const ask = (body: object) => caller.ask('POST', '/v2/models/verify', body);
  assert.equal((await ask({ model_ref, signature })).body.error.code, 'INVALID_PARAMS');
  assert.equal((await ask({ model_ref, sha256: 'x' })).body.error.code, 'INVALID_PARAMS');
  assert.equal((await ask({ model_ref: `file:${data}/none.gguf` })).body.error.code, 'MODEL_NOT_FOUND');
});
