/** Calls to an upstream survive the brain, and are never made twice where they cost money. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { until } from './cli-process.ts';
import { executorsOf, modelServer, serveUpstreams, upstreamFolder } from './upstream-kit.ts';

test('the brain is killed in the middle of streams: they resume, and each job was one call', async (t) => {
  const upstream = await modelServer(t, ['m']);
  const data = upstreamFolder(t);
  const ups = [{ url: upstream.url, name: 'up', slots: 6 }];
  const first = await serveUpstreams(t, ups, { data });
  await first.api.untilModels('m');
  upstream.isHolding = true;
  const ids = await Promise.all(
    Array.from({ length: 6 }, (_, i) =>
      first.api.submit({ model: 'm', prompt: `job ${i}`, priority: 'interactive' }),
    ),
  );
  const begun = await Promise.all(ids.map((id) => first.api.read(id, '', (text) => text === 'You ')));
  const [executor] = executorsOf(data);
  await first.kill();
  // Half of the answers end while there is no brain.
  for (const { response } of upstream.calls.slice(0, 3)) assert.equal(response.destroyed, false);
  const second = await serveUpstreams(t, ups, { data, port: first.port });
  upstream.release();
  const rests = await Promise.all(ids.map((id, i) => second.api.read(id, begun[i]?.lastId)));
  rests.forEach(({ text, events }, i) => {
    assert.equal(text, `said: job ${i}`);
    assert.equal(events.at(-1), 'end');
    assert.ok(!events.includes('reset'));
  });
  for (const id of ids)
    assert.equal((await second.api.ended(id)).result.text, `You said: job ${ids.indexOf(id)}`);
  assert.equal(upstream.calls.length, 6);
  assert.deepEqual(executorsOf(data), [executor]);
});

test('answers that end while there is no brain are collected by the next one', async (t) => {
  const upstream = await modelServer(t, ['m']);
  const data = upstreamFolder(t);
  const first = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }], { data });
  await first.api.untilModels('m');
  upstream.isHolding = true;
  const id = await first.api.submit({ model: 'm', prompt: 'Hello' });
  await upstream.called(1);
  await first.api.until(id, ({ state }) => state === 'running');
  await first.kill();
  upstream.release();
  await until(() => upstream.calls[0]?.response.writableFinished === true);
  const second = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }], { data, port: first.port });
  assert.equal((await second.api.ended(id)).result.text, 'You said: Hello');
  assert.equal(upstream.calls.length, 1);
});

test('an orderly stop leaves a running call alone, and the next start goes on with it', async (t) => {
  const upstream = await modelServer(t, ['m']);
  const data = upstreamFolder(t);
  const first = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }], { data });
  await first.api.untilModels('m');
  upstream.isHolding = true;
  const id = await first.api.submit({ model: 'm', prompt: 'Hello' });
  await first.api.until(id, ({ state }) => state === 'running');
  first.child.kill('SIGTERM');
  assert.match((await first.ended).out, /the next start collects their answers/);
  const second = await serveUpstreams(t, [{ url: upstream.url, name: 'up' }], { data, port: first.port });
  upstream.release();
  assert.equal((await second.api.ended(id)).attempts.length, 1);
  assert.equal(upstream.calls.length, 1);
});

test('without the upstream its models are no longer offered, its running call ends, and waiting jobs say why', async (t) => {
  const upstream = await modelServer(t, ['m']);
  const data = upstreamFolder(t);
  const first = await serveUpstreams(t, [{ url: upstream.url, name: 'up', slots: 1 }], { data });
  await first.api.untilModels('m');
  upstream.isHolding = true;
  const running = await first.api.submit({ model: 'm', prompt: 'first' });
  await first.api.until(running, ({ state }) => state === 'running');
  const waiting = await first.api.submit({ model: 'm', prompt: 'second' });
  const [executor] = executorsOf(data);
  await first.kill();
  const second = await serveUpstreams(t, [], { data, port: first.port });
  const told = await second.api.until(waiting, (job) => /"up" had the model/.test(job.waiting?.text));
  assert.equal(told.waiting.code, 'no_backend');
  assert.deepEqual(await second.api.models(), ['demo']);
  const refused = await second.api.post('/v2/tasks', { model: 'm', prompt: 'third' });
  assert.equal(refused.status, 404);
  assert.match(refused.body.error.message, /not configured any more/);
  upstream.release();
  assert.equal((await second.api.ended(running)).state, 'succeeded');
  // Its executor has nothing left to do.
  await until(() => {
    try {
      return !process.kill(executor as number, 0);
    } catch {
      return true;
    }
  });
  assert.equal((await second.api.job(waiting)).state, 'queued');
});

test('an executor that is killed is started again: a free call is made again, a paid one is held', async (t) => {
  for (const paid of [false, true]) {
    const upstream = await modelServer(t, ['m']);
    const data = upstreamFolder(t);
    const { api } = await serveUpstreams(t, [{ url: upstream.url, name: 'up', paid }], { data });
    await api.untilModels('m');
    upstream.isHolding = true;
    const id = await api.submit({ model: 'm', prompt: 'Hello' });
    await upstream.called(1);
    await api.until(id, ({ state }) => state === 'running');
    upstream.isHolding = false;
    process.kill(executorsOf(data)[0] as number, 'SIGKILL');
    if (!paid) assert.equal((await api.ended(id)).state, 'succeeded');
    else {
      const held = await api.until(id, ({ state }) => state === 'stale');
      assert.equal(held.waiting.code, 'unknown_outcome');
      // It works again, and has not bought the held call a second time.
      assert.equal((await api.ended(await api.submit({ model: 'm', prompt: 'next' }))).state, 'succeeded');
      assert.equal((await api.job(id)).state, 'stale');
    }
    assert.equal(upstream.counts.get('Hello'), paid ? 1 : 2);
  }
});

test('a paid call whose answer is lost is held until somebody decides; the key is shown to nobody but the upstream', async (t) => {
  const KEY = 'sk-very-secret-key';
  const upstream = await modelServer(t, ['m']);
  const data = upstreamFolder(t);
  const env = { MY_KEY: KEY };
  const server = await serveUpstreams(t, [{ url: upstream.url, name: 'up', key_env: 'MY_KEY' }], {
    data,
    env,
  });
  const { api } = server;
  await api.untilModels('m');
  upstream.isHolding = true;
  const id = await api.submit({ model: 'm', prompt: 'Hello' });
  await upstream.called(1);
  upstream.calls[0]?.response.destroy();
  const held = await api.until(id, ({ state }) => state === 'stale');
  assert.equal(held.waiting.code, 'unknown_outcome');
  assert.equal(upstream.calls.length, 1);
  await api.post(`/v2/tasks/${id}/resolve`, { as: 'retry' });
  upstream.isHolding = false;
  assert.equal((await api.ended(id)).state, 'succeeded');
  assert.equal(upstream.calls.length, 2);
  assert.ok(upstream.asked.every(({ key }) => key === `Bearer ${KEY}`));
  const [pid] = executorsOf(data);
  const seen = [
    JSON.stringify(await api.job(id)),
    JSON.stringify(await api.get('/v2/meta/capabilities')),
    readFileSync(`/proc/${pid}/cmdline`, 'utf8'),
    readFileSync(`/proc/${pid}/environ`, 'utf8'),
    readFileSync(`${data}/upstreams/executors/up/executor.log`, 'utf8'),
    readFileSync(`${data}/upstreams/executors/up/executor.json`, 'utf8'),
  ];
  server.child.kill('SIGTERM');
  const { out, err } = await server.ended;
  for (const text of [...seen, out, err]) assert.ok(!text.includes(KEY), text.slice(0, 200));
});
