/** Routes with real upstreams: jobs go elsewhere while a provider fails or wants none, and come back. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ModelServer } from '../fakes/model-server.ts';
import { orchd } from './cli-process.ts';
import { modelServer, serveUpstreams, type Upstreamed, upstreamFolder } from './upstream-kit.ts';

const STEPS = [
  { model: 'large', on: ['rate_limited', 'error'] },
  { model: 'small', on: [] },
];
const CALLS = '/v1/chat/completions';

const refusing =
  (status: number, headers: Record<string, string> = {}) =>
  (_: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ error: { message: 'not now', type: 'server_error' } }));
  };

const setRoute = async (url: string, id: string, steps: unknown): Promise<Response> =>
  fetch(`${url}/v2/catalog/routes/${id}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ steps }),
  });

interface Routed {
  readonly server: Upstreamed;
  readonly large: ModelServer;
  readonly small: ModelServer;
}

async function routed(t: TestContext, settings: object = {}): Promise<Routed> {
  const [large, small] = [await modelServer(t, ['large']), await modelServer(t, ['small'])];
  const data = upstreamFolder(t);
  const server = await serveUpstreams(t, [{ url: large.url }, { url: small.url }], { data, settings });
  await server.api.untilModels('large', 'small');
  assert.equal((await setRoute(server.url, 'best', STEPS)).status, 200);
  return { server, large, small };
}

const ask = ({ server: { api } }: Routed, prompt: string): Promise<string> =>
  api.submit({ model: 'best', payload: { messages: [{ role: 'user', content: prompt }] } });

test('a route is named like a model, by /v2 and /v1; the server gets the name of its own model', async (t) => {
  const all = await routed(t);
  const { server, large } = all;
  const job = await server.api.ended(await ask(all, 'by v2'));
  assert.deepEqual(
    [job.state, job.model, job.route, job.attempts[0].model],
    ['succeeded', 'large', { name: 'best', model: 'large', left: [] }, 'large'],
  );
  const { body } = await server.api.post(CALLS, {
    model: 'best',
    messages: [{ role: 'user', content: 'by v1' }],
  });
  assert.equal(body.choices[0].message.content, 'You said: by v1');
  assert.deepEqual(
    large.calls.map(({ model, prompt }) => [model, prompt]),
    [
      ['large', 'by v2'],
      ['large', 'by v1'],
    ],
  );
  assert.deepEqual((await server.api.models()).sort(), ['best', 'large', 'small']);
});

test('while a provider fails, its breaker opens and the work goes elsewhere; when it is well again, the work comes back', async (t) => {
  const scheduler = { breaker_failures: 2, breaker_pause_ms: 300, breaker_max_pause_ms: 300 };
  const all = await routed(t, { orchestrator: { scheduler, retry: { base_delay_ms: 50 } } });
  const { server, large, small } = all;
  large.paths.set(CALLS, refusing(500));
  for (const prompt of ['one', 'two', 'three']) {
    const job = await server.api.ended(await ask(all, prompt));
    assert.deepEqual([job.state, job.route.left], ['succeeded', [{ model: 'large', why: 'error' }]]);
  }
  const failed = large.asked.filter(({ what }) => what === `POST ${CALLS}`).length;
  assert.equal(failed, 2, 'the third job was not sent to a provider that fails');
  assert.equal(small.calls.length, 3);
  large.paths.delete(CALLS);
  for (let tries = 0; ; tries++) {
    const { model } = await server.api.ended(await ask(all, `again ${tries}`));
    if (model === 'large') break;
  }
  assert.equal(large.calls.length, 1, 'the job that tried it');
});

test('a provider that wants no jobs for a while costs no try, and what waited goes elsewhere at once', async (t) => {
  const all = await routed(t);
  all.large.paths.set(CALLS, refusing(429, { 'retry-after': '3600' }));
  const ids = await Promise.all(['a', 'b', 'c'].map((prompt) => ask(all, prompt)));
  for (const id of ids) {
    const job = await all.server.api.ended(id);
    assert.deepEqual(
      [job.state, job.tries, job.route.left],
      ['succeeded', 0, [{ model: 'large', why: 'rate_limited' }]],
    );
  }
});

test('routes survive kill -9, with the places of their jobs', async (t) => {
  const all = await routed(t);
  const { server, large, small } = all;
  large.paths.set(CALLS, refusing(429, { 'retry-after': '3600' }));
  small.isHolding = true;
  const id = await ask(all, 'held');
  await small.called(1);
  await server.kill();
  const again = await serveUpstreams(t, [{ url: large.url }, { url: small.url }], { data: server.data });
  assert.deepEqual(
    (await again.api.get('/v2/catalog/routes')).routes.map(({ route }: { route: string }) => route),
    ['best'],
  );
  small.release();
  const job = await again.api.ended(id);
  assert.deepEqual([job.state, job.route.model, small.calls.length], ['succeeded', 'small', 1]);
});

test('orchd routes sets, lists and deletes them; what is wrong is named and changes nothing', async (t) => {
  const { server } = await routed(t);
  const folder = mkdtempSync(join(tmpdir(), 'orchd-routes-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'cheap.yaml');
  writeFileSync(
    file,
    'steps:\n  - model: small\n    on: [wait_ms]\n    wait_ms: 5000\n  - model: large\n    on: []\n',
  );
  const run = (...words: string[]) => orchd(['routes', ...words, '--url', server.url]);
  const set = await run('set', 'cheap', file);
  assert.equal(set.code, 0, set.err);
  assert.match(set.out, /^cheap\n {2}1\. small; goes on after: a wait of 5(?:\.0)? s\n {2}2\. large\n$/);
  assert.match((await run()).out, /^best\n[\s\S]*^cheap\n/m);
  writeFileSync(file, 'steps:\n  - model: cheap\n    on: []\n');
  const itself = await run('set', 'cheap', file);
  assert.equal(itself.code, 2);
  assert.match(itself.err, /names itself/);
  assert.equal((await run('delete', 'cheap')).code, 0);
  assert.equal((await run('delete', 'cheap')).code, 1);
  const reply = await setRoute(server.url, 'bad', [{ model: 'large', on: ['weather'] }]);
  assert.equal(reply.status, 400);
});
