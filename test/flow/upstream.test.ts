/** A server in front of another one that runs already: `orchd up --upstream URL`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { json } from '../fakes/model-server.ts';
import { orchd, until } from './cli-process.ts';
import { executorsOf, modelServer, serveAt, serveUpstreams, upstreamFolder } from './upstream-kit.ts';

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test('two commands: another orchd is in front, and answers by /v1, streamed or not, and by /v2', async (t) => {
  const behind = await serveAt(t, { data: upstreamFolder(t) });
  const data = upstreamFolder(t);
  const front = await serveAt(t, { data, args: ['--upstream', `${behind.url}/v1/`] });
  const { api } = front;
  assert.match(await front.saw('err', /press/), /models: demo\n.*--model demo/);
  assert.deepEqual(await api.models(), ['demo']);
  const messages = [{ role: 'user', content: 'Hello there' }];
  const { status, body } = await api.post('/v1/chat/completions', { model: 'demo', messages });
  assert.equal(status, 200);
  assert.match(body.choices[0].message.content, /Hello there/);
  const streamed = await fetch(`${front.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', messages, stream: true }),
  });
  assert.match(await streamed.text(), /data: \[DONE\]/);
  // The only model of all upstreams is that of a job without one.
  const job = await api.ended(await api.submit({ prompt: 'Hello' }));
  assert.deepEqual(
    [job.state, job.model, job.attempts[0].backend],
    ['succeeded', 'demo', job.attempts[0].backend],
  );
  const followed = await orchd(['submit', '--follow', '--url', front.url, 'Hello again']);
  assert.match(followed.out, /Hello again/);
  // A stop of a server without work ends its executor.
  const [pid] = executorsOf(data);
  front.child.kill('SIGTERM');
  assert.equal((await front.ended).code, 0);
  await until(() => !isAlive(pid as number));
});

test('models come, go and change their context lengths with the upstream, and unknown lengths stay unknown', async (t) => {
  const upstream = await modelServer(t, ['plain', { id: 'long', max_model_len: 5000 }]);
  const { api } = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }]);
  await api.untilModels('plain', 'long');
  const big = 'x'.repeat(6000 * 4);
  const refused = await api.post('/v2/tasks', { model: 'long', prompt: big });
  assert.deepEqual([refused.status, refused.body.error.reason], [422, 'context_length']);
  assert.equal((await api.ended(await api.submit({ model: 'plain', prompt: big }))).state, 'succeeded');
  upstream.models = [{ id: 'long', max_model_len: 50_000 }, 'new'];
  await api.untilModels('long', 'new');
  assert.equal((await api.ended(await api.submit({ model: 'long', prompt: big }))).state, 'succeeded');
  const gone = await api.post('/v2/tasks', { model: 'plain', prompt: 'Hello' });
  assert.deepEqual([gone.status, gone.body.error.code], [404, 'MODEL_NOT_FOUND']);
  assert.match(gone.body.error.message, /"up" had it/);
  assert.match(gone.body.error.next, /GET \/v1\/models.*upstream/);
});

test('slots are what the server says, or the setting', async (t) => {
  const upstream = await modelServer(t, [{ id: 'm', owned_by: 'llamacpp' }]);
  upstream.paths.set('/props', json({ default_generation_settings: { n_ctx: 4096 }, total_slots: 7 }));
  const { api } = await serveUpstreams(t, [
    { url: upstream.url, name: 'a' },
    { url: `${upstream.url}/v1`, name: 'b', slots: 3 },
  ]);
  assert.deepEqual([(await api.backend('a')).slots, (await api.backend('b')).slots], [7, 3]);
});

test('only the listed models are offered, under the names that the configuration gives them', async (t) => {
  const upstream = await modelServer(t, ['qwen3:8b', 'qwen3:32b', 'llama3']);
  const { api } = await serveUpstreams(t, [
    { url: upstream.url, models: ['qwen3:*'], rename: { large: 'qwen3:32b' } },
  ]);
  await api.untilModels('large', 'qwen3:8b');
  await api.ended(await api.submit({ model: 'large', prompt: 'Hello' }));
  assert.equal(upstream.calls[0]?.model, 'qwen3:32b');
});

test('messages with images and tools reach the upstream as they are', async (t) => {
  const upstream = await modelServer(t, ['m']);
  const { api } = await serveUpstreams(t, [{ url: upstream.url }]);
  await api.untilModels('m');
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
  const messages = [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, image] }];
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
  const { status } = await api.post('/v1/chat/completions', { model: 'm', messages, tools });
  assert.equal(status, 200);
  assert.deepEqual([upstream.calls[0]?.body.messages, upstream.calls[0]?.body.tools], [messages, tools]);
});

test('a prompt reaches the upstream as a chat, by /v2 and by the CLI; only /v1/completions asks it to go on with a text', async (t) => {
  const upstream = await modelServer(t, ['m']);
  const { api, url } = await serveUpstreams(t, [{ url: upstream.url }]);
  await api.untilModels('m');
  assert.equal(
    (await api.ended(await api.submit({ model: 'm', prompt: 'one', seed: 7 }))).state,
    'succeeded',
  );
  await orchd(['submit', '--follow', '--url', url, 'two']);
  const { body } = await api.post('/v1/completions', { model: 'm', prompt: 'three' });
  assert.equal(body.choices[0].text, 'You said: three');
  const posts = upstream.asked.flatMap(({ what }) => (what.startsWith('POST') ? [what] : []));
  const chat = 'POST /v1/chat/completions';
  assert.deepEqual(posts, [chat, chat, 'POST /v1/completions']);
  const [one, two, three] = upstream.calls.map((call) => call.body);
  assert.deepEqual([one.messages, one.prompt, one.seed], [[{ role: 'user', content: 'one' }], undefined, 7]);
  assert.deepEqual(two.messages, [{ role: 'user', content: 'two' }]);
  assert.deepEqual([three.prompt, three.messages, three.raw_prompt], ['three', undefined, undefined]);
});

test('an upstream that is away at the start is used when it comes; a job may wait for it', async (t) => {
  const upstream = await modelServer(t, ['m']);
  await upstream.kill();
  const server = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }]);
  const { api } = server;
  assert.match(await server.saw('out', /an upstream cannot be used/), /UPSTREAM_UNAVAILABLE/);
  assert.equal((await api.post('/v2/tasks', { model: 'm', prompt: 'Hello' })).status, 404);
  const waiting = await api.submit({ model: 'm', prompt: 'Hello', wait_for_backend: true });
  assert.equal((await api.job(waiting)).waiting.code, 'no_backend');
  await upstream.start();
  assert.equal((await api.ended(waiting)).state, 'succeeded');
});

test('an upstream is restarted with other models under load: nothing is lost, nothing hangs, the models follow', async (t) => {
  const upstream = await modelServer(t, ['stays', 'goes']);
  const { api } = await serveUpstreams(t, [{ url: upstream.url, name: 'up', slots: 8 }]);
  await api.untilModels('stays', 'goes');
  upstream.isHolding = true;
  const submit = (model: string, n: number, more = {}) =>
    Promise.all(Array.from({ length: n }, (_, i) => api.submit({ model, prompt: `${model} ${i}`, ...more })));
  const stays = await submit('stays', 30);
  const goes = await submit('goes', 5, { deadline_ms: 4000 });
  await upstream.called(8);
  await upstream.kill();
  const down = await api.untilBackend(({ up }) => !up);
  assert.match(down.problem, /does not answer/);
  const waiting = await api.until(stays.at(-1) as string, (job) => job.waiting?.code === 'backend_down');
  assert.match(waiting.waiting.text, /"up" \(.*does not answer/);
  // While it is away its models are still known, and jobs wait for it.
  stays.push(await api.submit({ model: 'stays', prompt: 'late' }));
  upstream.isHolding = false;
  upstream.models = ['stays', 'comes'];
  await upstream.start();
  await api.untilModels('stays', 'comes');
  for (const id of stays) assert.equal((await api.ended(id)).state, 'succeeded');
  const left = await api.until(
    goes.at(-1) as string,
    ({ state, waiting }) => state === 'dead' || waiting?.code === 'no_backend',
  );
  if (left.state !== 'dead') assert.match(left.waiting.text, /"up" had the model, and no longer has it/);
  for (const id of goes) assert.equal((await api.ended(id)).state, 'dead');
  const again = await api.ended(await api.submit({ model: 'comes', prompt: 'Hello' }));
  assert.equal(again.state, 'succeeded');
});

test('two upstreams with the same model share its jobs; when one dies, the other takes them', async (t) => {
  const [a, b] = [await modelServer(t, ['m']), await modelServer(t, ['m', 'other'])];
  const { api } = await serveUpstreams(t, [
    { url: a.url, name: 'a', slots: 3 },
    { url: b.url, name: 'b', slots: 3 },
  ]);
  await api.untilModels('m', 'other');
  for (const each of [a, b]) each.isHolding = true;
  const ids = await Promise.all(
    Array.from({ length: 24 }, (_, i) => api.submit({ model: 'm', prompt: `${i}` })),
  );
  await Promise.all([a.called(3), b.called(3)]);
  await a.kill();
  b.release();
  for (const id of ids) assert.equal((await api.ended(id)).state, 'succeeded');
  assert.deepEqual([...b.counts.keys()].length, 24);
  // What `a` had begun was free, so it was run again; what `b` had begun was not.
  for (const [prompt, count] of b.counts) assert.equal(count, 1, prompt);
});

test('a model of the catalog keeps its name, and the log says what to do', async (t) => {
  const upstream = await modelServer(t, ['m', 'free']);
  const data = upstreamFolder(t);
  const first = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }], { data });
  const model = { model_id: 'm', model_ref: 'openai:m', size_bytes: 1, context_length: 100 };
  assert.equal((await first.api.post('/v2/catalog/models', model)).status, 200);
  await first.kill();
  const second = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }], { data, port: first.port });
  await second.saw('out', /the catalog has another model of this name.*rename/);
  assert.deepEqual((await second.api.models()).sort(), ['free', 'm']);
  const job = await second.api.submit({ model: 'm', prompt: 'Hello' });
  assert.equal((await second.api.job(job)).state, 'queued');
  assert.equal(upstream.calls.length, 0);
});
