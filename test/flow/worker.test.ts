/** The promises of a worker to the brain, shown on its process. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DemoEngine } from '../../src/daemons/worker/demo-engine.ts';
import { Worker } from '../../src/daemons/worker/worker.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { jsonLines, linesOf, until } from './cli-process.ts';
import { testFolder } from './server-process.ts';
import { Line, readyWorker, startWorker, type WorkerProcess } from './worker-kit.ts';

/** Longer than any test: what runs at this speed runs until it is cancelled. */
const STUCK = { ORCHD_WORKER_DEMO_DELAY_MS: '1000000' };

describe('a worker that answers at once', () => {
  let worker: WorkerProcess;
  const endings: (() => Promise<void>)[] = [];
  before(async () => {
    worker = await readyWorker({ after: (run: () => Promise<void>) => endings.push(run) }, [
      '--slots',
      '4',
      '--id',
      'w1',
    ]);
  });
  after(async () => {
    for (const end of endings) await end();
  });

  test('a stream is started, tokens and the end, numbered from 1', async () => {
    const events = await (await worker.line.execute('plain:1', { prompt: 'Hello' })).rest();
    assert.deepEqual(
      events.map(({ n }) => n),
      events.map((_, at) => at + 1),
    );
    assert.equal(events[0]?.event, 'started');
    assert.equal(events[0]?.data.job_id, 'plain');
    const end = events.at(-1);
    const text = events.flatMap(({ event, data }) => (event === 'token' ? [data.t] : [])).join('');
    assert.equal(end?.event, 'end');
    assert.equal(end?.data.result.text, text);
    assert.match(text, /You said: Hello$/);
    assert.equal(end?.data.tokens_out, end?.data.result.usage.completion_tokens);
  });

  test('the same token again, even at once, is the same stream from its first event', async () => {
    const offer = (): Promise<unknown[]> =>
      worker.line.execute('twice:1', { prompt: 'Hello' }).then((events) => events.rest());
    const [first, second] = await Promise.all([offer(), offer()]);
    assert.deepEqual(second, first);
    assert.deepEqual(await offer(), first);
    const begun = jsonLines((await worker.saw('out', /twice/)) ?? '').filter(
      ({ message, job_id: job }) => message === 'an execution begins' && job === 'twice',
    );
    assert.equal(begun.length, 1);
  });

  test('a result stays until it is acknowledged, and its token never runs again', async () => {
    const token = 'tenant~kept:1';
    const end = await worker.line.outcome(token, { prompt: 'Hello' });
    const { body } = await worker.line.state(token);
    const { result, decode_time_ms } = end.data;
    assert.deepEqual([body.state, body.outcome], ['ended', { ok: true, result, decode_time_ms }]);
    const [again] = await (await worker.line.events(token, end.n - 1)).rest();
    assert.deepEqual(again, end);
    assert.deepEqual(await (await worker.line.events(token, end.n)).rest(), []);
    assert.equal((await worker.line.ack(token)).status, 204);
    assert.equal((await worker.line.ack(token)).status, 204);
    assert.ok(
      !(await worker.line.list()).body.executions.some((each: { token: string }) => each.token === token),
    );
    assert.deepEqual(
      (await (await worker.line.events(token)).rest()).at(-1),
      end,
      'who lost track may read on',
    );
    const late = await worker.line.execute(token, { prompt: 'Hello' });
    assert.deepEqual([late.status, (await late.json()).error.code], [409, 'UNKNOWN_OUTCOME']);
    assert.equal((await worker.line.cancel(token)).body.is, 'ended');
  });

  test('a token that was cancelled before it came is refused for good', async () => {
    const { status, body } = await worker.line.cancel('early:1', 'bury');
    assert.deepEqual([status, body.is], [202, 'tombstoned']);
    assert.ok(body.registry.length > 0 && body.remembered_since > 0);
    const late = await worker.line.execute('early:1', { prompt: 'Hello' });
    assert.deepEqual([late.status, (await late.json()).error.code], [410, 'TOMBSTONED']);
    assert.equal((await worker.line.state('early:1')).status, 404);
    const other = await worker.line.as({ owner: 'other' }).outcome('early:1', { prompt: 'Hello' });
    assert.equal(other.event, 'end', 'the tokens of another brain are its own');
  });

  test('an older epoch of the same owner is refused, on every order and read', async () => {
    const owner = 'fenced';
    const [older, newer] = [worker.line.as({ owner, epoch: 4 }), worker.line.as({ owner, epoch: 5 })];
    await older.outcome('job:1', { prompt: 'Hello' });
    assert.equal((await newer.list()).status, 200);
    const refusals = [
      await older.list(),
      await older.state('job:1'),
      await older.ack('job:1'),
      await older.cancel('job:2'),
      await older.ask('POST', '/shutdown', {}),
      await older.ask('GET', '/executions/job%3A1/events'),
    ];
    for (const { status, body } of refusals) assert.deepEqual([status, body.error.code], [409, 'FENCED']);
    const offer = await older.execute('job:2', { prompt: 'Hello' });
    assert.deepEqual([offer.status, (await offer.json()).error.code], [409, 'FENCED']);
    assert.equal((await newer.state('job:1')).body.state, 'ended');
    assert.equal((await newer.state('job:2')).status, 404, 'a refused offer has not run');
  });

  test('an order without a name is refused, and so is an offer without its token', async () => {
    const nameless = await fetch(`${worker.url}/cancel`, { method: 'POST' });
    assert.equal(nameless.status, 400);
    const { status, body } = await worker.line.ask('POST', '/execute', { job_id: 'x', prompt: 'Hello' });
    assert.deepEqual([status, body.error.field], [400, 'idempotency-key']);
  });

  test('a body that cannot be run starts nothing, and the token stays free', async () => {
    for (const bad of [{}, { prompt: 'a', messages: [] }, { prompt: 7 }, { prompt: 'a', max_tokens: -1 }]) {
      const refused = await worker.line.execute('bad:1', bad);
      assert.deepEqual([refused.status, (await refused.json()).error.code], [400, 'INVALID_PARAMS']);
    }
    assert.equal((await worker.line.state('bad:1')).status, 404);
    assert.equal((await worker.line.outcome('bad:1', { prompt: 'good' })).event, 'end');
  });

  test('an offer that counts on another memory is turned away as busy', async () => {
    const stray = await worker.line.as({ registry: 'another' }).execute('stray:1', { prompt: 'Hello' });
    assert.deepEqual([stray.status, (await stray.json()).error.code], [503, 'WORKER_BUSY']);
    const { registry } = (await worker.line.health()).body;
    const meant = await worker.line.as({ registry }).outcome('stray:1', { prompt: 'Hello' });
    assert.equal(meant.event, 'end');
  });

  test('what the engine cannot do is an error with a code that stays', async () => {
    const schema = { type: 'json_schema', json_schema: { schema: { type: 'object' } } };
    const form = await worker.line.outcome('form:1', { prompt: 'a', response_format: schema });
    assert.deepEqual([form.event, form.data.code, form.data.retriable], ['error', 'UNSUPPORTED', false]);
    const long = await worker.line.outcome('long:1', { prompt: 'a', max_tokens: 5000 });
    assert.equal(long.data.code, 'CONTEXT_TOO_LONG');
    assert.equal((await worker.line.state('long:1')).body.outcome.error.code, 'CONTEXT_TOO_LONG');
  });

  test('embeddings are numbers, as many rows as texts', async () => {
    const { data } = await worker.line.outcome('embed:1', { input: ['one two', 'one two', 'three'] });
    const [first, second, third] = data.result.embeddings;
    assert.deepEqual(first, second);
    assert.notDeepEqual(first, third);
    assert.deepEqual(data.result.usage, { prompt_tokens: 5, completion_tokens: 0 });
  });
});

test('a reader that leaves takes nothing with it; a cancel ends it, and frees its slot', async (t) => {
  const worker = await readyWorker(t, [], { env: STUCK });
  const leaving = new AbortController();
  const offer = await worker.line.as({ signal: leaving.signal }).execute('held:1', { prompt: 'a' });
  assert.equal((await offer.next()).event, 'started');
  leaving.abort();
  assert.equal((await worker.line.state('held:1')).body.state, 'running');
  assert.equal((await worker.line.health()).body.status, 'busy');

  const full = await worker.line.execute('next:1', { prompt: 'a' });
  const { error } = await full.json();
  assert.deepEqual([full.status, error.code, error.retriable], [503, 'WORKER_BUSY', true]);
  assert.ok(error.retry_after_ms > 0);

  assert.equal((await worker.line.ack('held:1')).status, 409, 'it has no result yet');
  assert.equal((await worker.line.cancel('held:1', 'bury')).body.is, 'running');
  assert.equal((await worker.line.cancel('held:1')).body.is, 'stopping');
  const last = (await (await worker.line.events('held:1')).rest()).at(-1);
  assert.deepEqual([last?.event, last?.data.code], ['error', 'CANCELLED']);
  const again = await worker.line.cancel('held:1');
  assert.deepEqual([again.body.is, again.body.outcome], ['ended', { ok: 'cancelled' }]);

  const second = await worker.line.execute('next:1', { prompt: 'a' });
  assert.equal((await second.next()).event, 'started');
  const byJob = await worker.line.ask('POST', '/cancel', { job_id: 'next' });
  assert.equal(byJob.body.is, 'stopping');
  assert.equal((await second.until('error')).data.code, 'CANCELLED');
  assert.equal((await worker.line.ask('POST', '/cancel', { job_id: 'nobody' })).status, 404);
});

test('with a secret only the health is public, and without one only this machine is served', async (t) => {
  const secret = 'k'.repeat(40);
  const { url } = await readyWorker(t, [], { env: { ORCHD_WORKER_TOKEN: secret } });
  const line = new Line(url);
  assert.equal((await line.health()).status, 200);
  assert.equal((await line.list()).status, 401);
  assert.equal((await line.as({ bearer: `${secret}x` }).cancel('a:1')).status, 401);
  assert.equal((await line.as({ bearer: secret }).outcome('a:1', { prompt: 'a' })).event, 'end');
  const open = startWorker(t, ['--host', '0.0.0.0']);
  await assert.rejects(open, /ORCHD_WORKER_TOKEN/);
  const env = { ORCHD_WORKER_TOKEN: secret };
  await assert.rejects(startWorker(t, ['--host', '0.0.0.0'], { env }), /set --uri to an address/);
  const words = ['--host', '0.0.0.0', '--uri', 'http://127.0.0.1:{port}'];
  const reached = await readyWorker(t, words, { env });
  assert.equal((await reached.line.as({ bearer: secret }).list()).status, 200);
});

test('told to stop, it finishes what runs, takes nothing new, waits to be read, and exits with 0', async (t) => {
  const folder = testFolder(t);
  const ledger = join(folder, 'ledger');
  const env = { ORCHD_WORKER_DEMO_DELAY_MS: '15', ORCHD_WORKER_LEDGER: ledger };
  const worker = await readyWorker(t, ['--slots', '2'], { env });
  const offer = await worker.line.execute('last:1', { prompt: 'a' });
  await offer.until('token');
  worker.child.kill('SIGTERM');
  await until(async () => (await worker.line.health()).body.status === 'draining');
  const late = await worker.line.execute('late:1', { prompt: 'a' });
  assert.deepEqual([late.status, (await late.json()).error.code], [503, 'WORKER_BUSY']);
  assert.equal((await offer.until('end')).event, 'end');
  assert.equal((await worker.line.state('last:1')).body.state, 'ended', 'the result waits for its reader');
  await worker.line.ack('last:1');
  assert.equal((await worker.ended).code, 0);
  assert.deepEqual(linesOf(readFileSync(ledger, 'utf8')), ['last:1 last']);
});

test('an order to shut down with no grace stops what runs, and leaves its outcome unknown', async (t) => {
  const worker = await readyWorker(t, [], { env: STUCK });
  const offer = await worker.line.execute('last:1', { prompt: 'a' });
  assert.equal((await worker.line.ask('POST', '/shutdown', { grace_ms: 0 })).status, 202);
  assert.equal((await offer.until('error')).data.code, 'UNKNOWN_OUTCOME');
  await worker.line.ack('last:1');
  assert.equal((await worker.ended).code, 0);
});

test('a pool manager is told again and again until it has heard', async (t) => {
  const heard: { status: number; path: string | undefined; bearer: string | undefined; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const status = heard.length < 2 ? 500 : 200;
    heard.push({ status, path: request.url, bearer: request.headers.authorization, body });
    response.writeHead(status).end('{}');
  });
  server.listen(0, '127.0.0.1');
  t.after(() => server.close());
  await until(() => server.listening);
  const { port } = server.address() as AddressInfo;
  const words = ['--id', 'w7', '--model-ref', 'demo:1', '--pool-manager', `http://127.0.0.1:${port}`];
  const worker = await startWorker(t, [...words, '--slots', '3'], { env: { ORCHD_WORKER_TOKEN: 's3cret' } });
  await worker.saw('out', /the worker is ready/);
  assert.deepEqual(
    heard.map(({ status, path, bearer }) => [status, path, bearer]),
    [500, 500, 200].map((status) => [status, '/v2/internal/workers/ready', 'Bearer s3cret']),
  );
  const { registry, ...body } = JSON.parse(heard.at(-1)?.body ?? '');
  const health = (await worker.line.health()).body;
  assert.equal(registry, health.registry);
  assert.deepEqual(body, {
    worker_id: 'w7',
    model_ref: 'demo:1',
    uri: worker.url,
    vram_bytes: 0,
    slots: 3,
    context_length: 4096,
    features: ['chat', 'completions', 'embeddings'],
  });
});

test('a full memory drops the oldest results, says that they ended, and a long log shows a gap', async (t) => {
  const env = realEnv();
  const engine = new DemoEngine({ env, model: 'demo', slots: 1, contextLength: 5000, delayMs: 0 });
  const logger = createLogger({ write: () => undefined, now: () => 0 });
  const options = { env, engine, logger, id: 'w', modelRef: 'demo', host: '127.0.0.1', port: 0 };
  const worker = new Worker({ ...options, maxLogBytes: 4000, memory: { maxEnded: 1, maxTokens: 3 } });
  t.after(() => worker.stop());
  await worker.start();
  await worker.loaded;
  const line = new Line(worker.url);
  const { remembered_since: since } = (await line.list()).body;
  for (const token of ['a:1', 'b:1']) await line.outcome(token, { prompt: 'word '.repeat(200) });
  const { body } = await line.list();
  assert.deepEqual(body.executions, [
    { token: 'a:1', job_id: 'a', state: 'ended' },
    { token: 'b:1', job_id: 'b', state: 'ended' },
  ]);
  assert.equal(body.remembered_since, since);
  assert.deepEqual((await line.state('a:1')).body, { token: 'a:1', job_id: 'a', state: 'ended' });
  assert.equal((await line.events('a:1')).status, 409);
  const kept = await (await line.events('b:1')).rest();
  assert.ok((kept[0]?.n ?? 0) > 1, 'the first events have made room');
  assert.deepEqual([kept.at(-1)?.event, kept.at(-1)?.n], ['end', (kept[0]?.n ?? 0) + kept.length - 1]);
  for (const token of ['c:1', 'd:1']) await line.outcome(token, { prompt: 'word' });
  const later = (await line.list()).body;
  assert.ok(later.remembered_since > since, 'a:1 is not known any more');
  assert.equal((await line.state('a:1')).status, 404);
});
