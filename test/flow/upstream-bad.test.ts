/** Addresses at which something else answers than an API, and servers that do not keep what they list. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { json } from '../fakes/model-server.ts';
import { orchd } from './cli-process.ts';
import {
  type Api,
  modelServer,
  POLL_SEC,
  serveUpstreams,
  type Upstreamed,
  upstreamFolder,
} from './upstream-kit.ts';

/** What answers `GET /v1/models`, and the code and words with which it is refused. */
const BAD: Readonly<
  Record<
    string,
    { readonly answer: (response: ServerResponse) => void; readonly code: string; readonly says: RegExp }
  >
> = {
  'a login page': {
    answer: (response) =>
      void response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><form>Log in</form>'),
    code: 'UPSTREAM_INVALID',
    says: /web page.*login.*\/v1\/models/,
  },
  'nonsense instead of JSON': {
    answer: (response) => void response.end('{"data": ['),
    code: 'UPSTREAM_INVALID',
    says: /no list of models/,
  },
  'JSON of another form': {
    answer: (response) => void response.end('{"data": {"models": 3}}'),
    code: 'UPSTREAM_INVALID',
    says: /no list of models/,
  },
  'entries without names': {
    answer: (response) => void response.end('{"data": [null, {"id": 7}, {"id": "no spaces here"}]}'),
    code: 'UPSTREAM_INVALID',
    says: /lists no model that has a usable/,
  },
  'a million models': {
    answer: (response) =>
      void response.end(`{"data":[${Array.from({ length: 1_000_000 }, () => '{}').join(',')}]}`),
    code: 'UPSTREAM_INVALID',
    says: /lists 1000000 models/,
  },
  'a body without an end': {
    answer(response) {
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      };
      response.on('drain', more);
      more();
    },
    code: 'UPSTREAM_INVALID',
    says: /more than \d+ bytes/,
  },
  'a redirect': {
    answer: (response) => void response.writeHead(302, { location: '/elsewhere' }).end(),
    code: 'UPSTREAM_INVALID',
    says: /redirect, which is not followed/,
  },
  'a wish for a key': {
    answer: (response) => void response.writeHead(401).end(),
    code: 'UPSTREAM_KEY_REFUSED',
    says: /wants a key.*--upstream-key-env/,
  },
  'no such page': {
    answer: (response) => void response.writeHead(404).end(),
    code: 'UPSTREAM_INVALID',
    says: /answers 404 to GET \/v1\/models.*with or without \/v1/,
  },
  'an error of its own': {
    answer: (response) => void response.writeHead(503).end(),
    code: 'UPSTREAM_UNAVAILABLE',
    says: /answers 503/,
  },
  'a broken connection': {
    answer: (response) => void response.destroy(),
    code: 'UPSTREAM_UNAVAILABLE',
    says: /does not answer/,
  },
};

describe('an address at which something else answers', () => {
  const asked: string[] = [];
  let answer: (response: ServerResponse) => void = (response) => void response.writeHead(404).end();
  const fake = createServer((request, response) => {
    asked.push(request.url ?? '');
    answer(response);
  });
  let server: Upstreamed;
  let api: Api;
  const endings: (() => unknown)[] = [];

  before(async () => {
    await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(fake.address() as AddressInfo).port}`;
    const t = { after: (run: () => unknown) => endings.unshift(run) } as never;
    server = await serveUpstreams(t, [{ url, name: 'up' }], { data: upstreamFolder(t) });
    api = server.api;
  });
  after(async () => {
    for (const end of endings) await end();
    fake.close();
    fake.closeAllConnections();
  });

  for (const [what, { answer: bad, code, says }] of Object.entries(BAD)) {
    test(`${what}: a warning with a code and what to do, no model, and it is asked again`, async () => {
      answer = bad;
      const backend = await api.untilBackend(({ problem }) => says.test(problem ?? ''));
      assert.equal(backend.up, false);
      assert.deepEqual(await api.models(), []);
      const line = (await server.saw('out', says)).split('\n').findLast((each) => says.test(each)) ?? '';
      assert.ok(line.includes(`"error_code":"${code}"`) && line.includes('"level":"warn"'), line);
      assert.ok(!asked.includes('/elsewhere'));
      // As soon as it answers as it should, it is used.
      answer = (response) => void response.end('{"data": [{"id": "good"}]}');
      await api.untilModels('good');
      answer = (response) => void response.end('{"data": []}');
      await api.untilModels();
    });
  }
});

test('what the upstream refuses is refused with the same status on /v1, and not asked again by OpenAI clients', async (t) => {
  const upstream = await modelServer(t, ['m']);
  const { api, url } = await serveUpstreams(t, [{ url: upstream.url }]);
  await api.untilModels('m');
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 2 });
  const messages = [{ role: 'user' as const, content: 'Hello' }];
  let calls = 0;
  for (const [theirs, ours] of [
    [400, 400],
    [404, 404],
    [413, 413],
    [422, 422],
    [418, 500],
  ] as const) {
    calls = 0;
    upstream.paths.set('/v1/chat/completions', (_, response) => {
      calls++;
      response.writeHead(theirs, { 'content-type': 'application/json' });
      response.end('{"error": {"message": "temperature is odd"}}');
    });
    const error = await client.chat.completions.create({ model: 'm', messages }).then(
      () => assert.fail('it was answered'),
      (thrown: unknown) => thrown as InstanceType<typeof OpenAI.APIError>,
    );
    assert.deepEqual([error.status, error.code, calls], [ours, 'EXECUTION_FAILED', 1]);
    assert.match(error.message, /temperature is odd/);
    assert.equal(error.headers?.get('x-should-retry'), 'false');
  }
});

test('a model that is listed and then not found: the job ends with the error of the upstream, after one call', async (t) => {
  const upstream = await modelServer(t, ['m', 'lie']);
  upstream.lies = ['lie'];
  const { api } = await serveUpstreams(t, [{ url: upstream.url }]);
  await api.untilModels('m', 'lie');
  const job = await api.ended(await api.submit({ model: 'lie', prompt: 'Hello' }));
  assert.deepEqual([job.state, job.error.code, job.attempts.length], ['dead', 'EXECUTION_FAILED', 1]);
  assert.match(job.error.message, /model 'lie' not found/);
  assert.equal(upstream.calls.length, 1);
});

test('wrong addresses are refused before anything starts, with the right one where it can be told', async (t) => {
  const data = upstreamFolder(t);
  const refused = async (...words: string[]): Promise<string> => {
    const { code, err } = await orchd(['up', '--port', '18999', '--data', data, ...words]);
    assert.equal(code, 2, words.join(' '));
    return err;
  };
  assert.match(await refused('--upstream', 'localhost:11434'), /did you mean http:\/\/localhost:11434\?/);
  assert.match(await refused('--upstream', 'ftp://host'), /http:\/\/ or https:\/\//);
  assert.match(await refused('--upstream', 'http://h:1/v1/chat/completions'), /http:\/\/h:1\/v1, without/);
  assert.match(await refused('--upstream', 'http://127.0.0.1:18999/v1'), /this server itself/);
  const secret = await refused('--upstream', 'http://me:pass-word@host');
  assert.match(secret, /--upstream-key-env/);
  assert.ok(!secret.includes('pass-word'));
  assert.match(
    await refused('--upstream', 'http://h:1', '--upstream-key-env', 'NOT_SET'),
    /--upstream-key-env: the variable NOT_SET is not set/,
  );
  const file = join(dirname(data), 'config.yaml');
  writeFileSync(file, 'backends: { upstreams: [{ url: "http://h:1", key_env: NOT_SET }] }');
  const configured = await refused('--config', file, '--upstream', 'http://h:2');
  assert.match(configured, /backends\.upstreams\[0\]\.key_env: the variable NOT_SET is not set/);
  assert.ok(!configured.includes('--upstream'), configured);
  const several = ['--upstream', 'http://h:1', '--upstream', 'http://h:2', '--upstream-key-env', 'NAME'];
  assert.match(await refused(...several), /exactly one --upstream/);
});

test('context lengths are read in the way of each server', async (t) => {
  const [lmStudio, ollama, router] = [
    await modelServer(t, ['loaded', 'idle']),
    await modelServer(t, ['set', 'in-memory', 'trained']),
    await modelServer(t, [{ id: 'routed', context_length: 4500 }]),
  ];
  lmStudio.paths.set(
    '/api/v0/models',
    json({
      data: [
        { id: 'loaded', state: 'loaded', max_context_length: 99_999, loaded_context_length: 4100 },
        { id: 'idle', state: 'not-loaded', max_context_length: 4200 },
      ],
    }),
  );
  ollama.paths.set(
    '/api/ps',
    json({ models: [{ name: 'in-memory', model: 'in-memory', context_length: 4300 }] }),
  );
  ollama.paths.set('/api/show', (request, response, body) => {
    const { model } = JSON.parse(body);
    const parameters =
      model === 'set' ? 'stop "<|eot|>"\nnum_ctx                        4400' : 'temperature 1';
    json({ parameters, model_info: { 'qwen3.context_length': 4600, 'qwen3.block_count': 1 } })(
      request,
      response,
      body,
    );
  });
  const { api } = await serveUpstreams(
    t,
    [lmStudio, ollama, router].map(({ url }, i) => ({ url, name: `up-${i}`, poll_sec: POLL_SEC })),
  );
  await api.untilModels('loaded', 'idle', 'set', 'in-memory', 'trained', 'routed');
  const lengths: Record<string, number> = {};
  for (const model of await api.models()) {
    const { body } = await api.post('/v2/tasks', { model, prompt: 'x'.repeat(4 * 4700) });
    lengths[model] = Number(/has (\d+)$/.exec(body.error?.message ?? '')?.[1]);
  }
  assert.deepEqual(lengths, {
    loaded: 4100,
    idle: 4200,
    set: 4400,
    'in-memory': 4300,
    trained: 4600,
    routed: 4500,
  });
});
