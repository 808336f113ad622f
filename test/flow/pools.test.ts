/**
 * The brain, two pool managers that it was told of, one that has registered, and their workers, each a process of its
 * own. In front of the first pool and its workers stand proxies that note what the brain asks, and where.
 */
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { loadConfig } from '../../src/config/load.ts';
import { readEvents } from '../../src/wire/sse.ts';
import { writeTinyModel } from '../fakes/gguf.ts';
import { until } from './cli-process.ts';
import { type RecordingProxy, WatchedPool } from './recording-proxy.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';
import { ABOUT, Client, eventually, MIB } from './site-client.ts';
import { type PoolProcess, poolProcess, QUICK, Shared, words } from './site-kit.ts';

const SHA = '0123456789abcdef0123456789abcdef01234567';
const OLD_SHA = 'fedcba9876543210fedcba9876543210fedcba98';
/** The paths of states, orders and model files; nothing of a job. */
const OF_A_MANAGER = /^\/v2\/(state(\?.*)?|workers\/(start|stop|[^/]+\/drain)|models\/(resolve|verify))$/;
const BIG = { vram_bytes: 600 * MIB };
const ONCE = { priority: 'interactive', max_tries: 1, on_disconnect: 'continue' };

const shared = new Shared();
const folder = testFolder(shared);
const models = join(folder, 'models');
const tiny = join(models, 'tiny.gguf');
const env = { ORCHD_WORKER_DEMO_DELAY_MS: '20' };
let box: PoolProcess;
let small: PoolProcess;
let late: PoolProcess;
let watched: WatchedPool;
let brain: ServerProcess;
let client: Client;

/** A cache as the tools of the hub leave it, with two revisions: each of their files is a link to its content. */
function fillCache(cache: string): void {
  const repo = join(cache, 'models--org--tiny');
  for (const each of ['blobs', 'refs', `snapshots/${SHA}`, `snapshots/${OLD_SHA}`])
    mkdirSync(join(repo, each), { recursive: true });
  writeFileSync(join(repo, 'refs', 'main'), SHA);
  writeFileSync(join(repo, 'refs', 'v1'), OLD_SHA);
  writeFileSync(join(repo, 'blobs', 'content'), readFileSync(tiny));
  for (const file of [
    `${SHA}/tiny.Q2_K.gguf`,
    `${SHA}/tiny.Q4_K_M.gguf`,
    `${SHA}/tiny.Q8_0.gguf`,
    `${OLD_SHA}/tiny.Q4_K_M.gguf`,
  ])
    symlinkSync('../../blobs/content', join(repo, 'snapshots', file));
}

before(async () => {
  mkdirSync(models);
  writeTinyModel(tiny);
  writeFileSync(join(folder, 'secret.gguf'), readFileSync(tiny));
  symlinkSync('../secret.gguf', join(models, 'link.gguf'));
  fillCache(join(folder, 'hub'));
  const engines = [
    { match: 'hf:*', engine: 'llama', args: ['--gpu', 'off', '--threads', '1'] },
    { match: 'file:*', engine: 'demo' },
  ];
  const config = { models: [models], hf_cache: join(folder, 'hub'), engines };
  [box, small] = await Promise.all([
    poolProcess(shared, { folder, config, env }),
    poolProcess(shared, { folder, id: 'small', config: { cpu_memory: 20 * MIB, models: [models] }, env }),
  ]);
  watched = await WatchedPool.before(shared, box.url);
  brain = await serve(shared, {
    data: join(folder, 'brain'),
    config: { ...QUICK, server: { disconnect_grace_ms: 20 } },
    env: { ORCHD_ORCHESTRATOR_POOL_MANAGERS: `${watched.url},${small.url}` },
  });
  client = new Client(brain.url);
  late = await poolProcess(shared, {
    folder,
    id: 'late',
    brain: brain.url,
    config: { cpu_memory: 20 * MIB },
  });
});

after(() => shared.end());

const becomes = (pool: string, status: string): Promise<unknown> =>
  eventually(
    `${pool} is ${status}`,
    async () => (await client.ask('GET', `/v2/pools/${pool}/health`)).body?.status === status,
  );

test('[ORCH-1112] [ORCH-1140] pool managers of the comma-separated list, and one that registers, are all used', async () => {
  for (const pool of ['box', 'small', 'late']) await becomes(pool, 'ok');
  const { pools } = await client.done('GET', '/v2/pools');
  assert.deepEqual(pools.map(({ pool_id }: { pool_id: string }) => pool_id).sort(), ['box', 'late', 'small']);
  // A pool that does not answer is shown as unreachable; when it comes back at another address it is found there.
  await late.kill();
  await becomes('late', 'unreachable');
  const former = new URL(late.url);
  const squatter = createServer((socket) => socket.destroy()).listen(Number(former.port), '127.0.0.1');
  await once(squatter, 'listening');
  shared.after(() => squatter.close());
  late = await poolProcess(shared, {
    folder,
    id: 'late',
    brain: brain.url,
    config: { cpu_memory: 20 * MIB },
  });
  assert.notEqual(late.url, former.origin);
  await becomes('late', 'ok');
  // Each of them runs jobs, on a worker that only it has.
  for (const pool of ['box', 'small', 'late']) {
    await client.register(`of-${pool}`, { vram_bytes: 5 * MIB });
    await client.done('POST', `/v2/pools/${pool}/reload`, { new_model_ref: `of-${pool}` });
    const { worker_id } = await client.worker(`demo:of-${pool}`, 'ready', pool);
    const job = await client.submit({ model: `of-${pool}`, prompt: 'x', max_tokens: 1 });
    const { attempts } = await client.becomes(job, 'succeeded');
    assert.deepEqual(
      attempts.map(({ backend }) => backend),
      [`${pool}/${worker_id}`],
    );
    await client.done('POST', `/v2/workers/${worker_id}/evict`, {});
    await eventually('it is gone', async () => (await client.workers(pool)).length === 0);
  }
});

describe('two models that do not fit together on a device', () => {
  test('[ORCH-1051] [ORCH-1052] [ORCH-1111] take turns: who is busy finishes, goes, and only then the other one starts', async () => {
    await client.register('alpha', BIG);
    await client.register('beta', BIG);
    const ordered = watched.manager.asked.length;
    const ordersOf = (path: RegExp) =>
      watched.manager.asked.slice(ordered).filter((each) => each.method === 'POST' && path.test(each.path));
    const first = await client.run({ model: 'alpha', prompt: words(50), ...ONCE });
    assert.deepEqual((await first.hears('queued')).events[0]?.data.waiting, {
      code: 'worker_start',
      text: 'a worker with this model is starting',
    });
    await first.says(2);
    const alpha = await client.worker('demo:alpha', 'busy');
    const second = await client.run({ model: 'beta', prompt: 'hello', ...ONCE });
    const [queued] = (await second.hears('queued')).events;
    assert.equal(queued?.data.waiting.code, 'worker_start');
    assert.match(queued?.data.waiting.text, /a worker with another model (makes room|is on its way out)/);
    // Drained, not stopped; it gets nothing new and goes on with what it has.
    assert.equal((await client.worker('demo:alpha', 'draining')).why, 'drained for beta');
    assert.equal(ordersOf(/stop$/).length, 0);
    assert.equal((await first.end()).event, 'end');
    assert.equal(first.text, ABOUT + words(50), 'to the last word');
    assert.equal((await second.end()).event, 'end');
    assert.equal(second.text, `${ABOUT}hello`);

    const orders = ordersOf(/^\/v2\/workers\//);
    assert.deepEqual(
      orders.map(({ path, body }) => [path, body.model_ref ?? body.worker_id]),
      [
        ['/v2/workers/start', 'demo:alpha'],
        [`/v2/workers/${alpha.worker_id}/drain`, undefined],
        ['/v2/workers/stop', alpha.worker_id],
        ['/v2/workers/start', 'demo:beta'],
      ],
    );
    assert.equal(orders[0]?.body.gpu_id, 0);
    // The second start came after a state without the first worker.
    const started = watched.manager.asked.findIndex(({ body }) => body?.model_ref === 'demo:beta');
    const before = watched.shown.filter((shown) => shown.after <= started).at(-1);
    assert.deepEqual(before?.workers, [], 'what was freed is confirmed first');
    const { gpus } = await client.done('GET', '/v2/pools/box/health');
    assert.equal(gpus[0].available_vram, 400 * MIB);
  });

  test('[ORCH-1093] an idle one is evicted at once, and the logs of the pool and of the brain tell of it', async () => {
    const beta = await client.worker('demo:beta');
    const third = await client.run({ model: 'alpha', prompt: 'again', max_tokens: 1, ...ONCE });
    assert.equal((await third.end()).event, 'end');
    assert.equal((await client.workers()).length, 1);
    const log = await box.saw('out', new RegExp(`"a worker is stopped".*${beta.worker_id}`));
    assert.ok(log.includes('"a worker is ready"'));
    await brain.saw('out', new RegExp(`"The worker is evicted.*${beta.worker_id}`));
    const told = await brain.saw('out', new RegExp(`"The worker is gone.*${beta.worker_id}`));
    const story = told
      .split('\n')
      .filter((line) => line.includes(beta.worker_id) && line.includes('"The worker '));
    assert.deepEqual(
      story.map((line) => /"The worker is (\w+)/.exec(line)?.[1]),
      ['ready', 'evicted', 'gone'],
    );
    assert.match(told, /"The worker is drained: it takes nothing new and finishes what it has\."/);
    for (const sentence of [
      'The job was admitted.',
      'A worker is started: it was ordered, and loads its model.',
      'A backend was chosen and the intent is durable.',
      'The backend has accepted it and the stream begins.',
      'The job is done and the stream ends.',
    ])
      assert.ok(told.includes(JSON.stringify(sentence)), sentence);
  });
});

describe('the line to a worker', () => {
  let id: string;
  let proxy: RecordingProxy;

  before(async () => {
    await client.submit({ model: 'alpha', prompt: 'x', max_tokens: 1, ...ONCE });
    id = (await client.worker('demo:alpha')).worker_id;
    proxy = await watched.worker((await box.caller.worker(id))?.uri ?? '');
  });

  test('[ORCH-1110] the state of a pool is asked for at GET /v2/state, in the agreed form', async () => {
    const asked = watched.manager.of('GET', /^\/v2\/state(\?|$)/);
    assert.ok(asked.length > 0);
    // How busy it is, its manager hears only now and then.
    const state = await eventually('it is idle', async () => {
      const now = await box.caller.state();
      return now.workers[0]?.status === 'ready' && now;
    });
    const [gpu] = state.gpus;
    const [worker] = state.workers;
    assert.equal(state.pool_id, 'box');
    assert.deepEqual(
      [gpu?.id, gpu?.total_vram, gpu?.allocated_vram, gpu?.available_vram, gpu?.workers],
      [0, 1000 * MIB, 600 * MIB, 400 * MIB, [id]],
    );
    assert.deepEqual(
      [worker?.id, worker?.model_ref, worker?.gpu, worker?.status],
      [id, 'demo:alpha', 0, 'ready'],
    );
    assert.equal(typeof worker?.vram_used, 'number');
    assert.match(worker?.uri ?? '', /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.match(worker?.started_at ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
  });

  test('[ORCH-1061] [ORCH-1062] [ORCH-1063] goes to the address of the registry, in its form, over few connections', async () => {
    const { asked } = proxy;
    const [from, connections] = [asked.length, proxy.connections];
    const jobs: string[] = [];
    for (let at = 0; at < 6; at++) {
      const body = { model: 'alpha', prompt: `say ${at}`, max_tokens: 2, session_id: 'talk', ...ONCE };
      jobs.push(await client.submit(body));
      assert.equal((await (await client.follow(jobs[at]!)).end()).event, 'end');
    }
    const executed = asked.slice(from).filter(({ path }) => path === '/execute');
    assert.deepEqual(
      executed.map(({ method, body }) => `${method} ${body.job_id}`),
      jobs.map((job) => `POST ${job}`),
    );
    const [{ headers, body } = assert.fail()] = executed;
    assert.equal(headers['idempotency-key'], `${jobs[0]}:1`);
    assert.equal(headers['authorization'], `Bearer ${(await box.caller.worker(id))?.token}`);
    assert.ok(headers['x-orchd-owner'] && Number(headers['x-orchd-epoch']) > 0);
    assert.deepEqual(body, {
      prompt: 'say 0',
      max_tokens: 2,
      job_id: jobs[0],
      model: 'alpha',
      session_id: 'default~talk',
    });
    // Whatever else a request says reaches the worker as it was said; a text is a prompt.
    const said = { messages: [{ role: 'user', content: 'hi' }], temperature: 0.5, seed: 7, max_tokens: 1 };
    for (const request of [{ ...said }, { payload: 'a text' }]) {
      const job = await client.submit({ model: 'alpha', ...ONCE, ...request });
      await client.becomes(job, 'succeeded');
      const sent = asked.find(({ path, body }) => path === '/execute' && body.job_id === job)?.body;
      const expected = 'payload' in request ? { prompt: 'a text' } : said;
      assert.deepEqual(sent, { ...expected, job_id: job, model: 'alpha', session_id: '' });
      jobs.push(job);
    }
    // Each is acknowledged too, after its end was told.
    await until(() => asked.length - from >= 2 * jobs.length);
    assert.ok(proxy.connections - connections <= 2, `${proxy.connections - connections} new connections`);
  });

  test('[ORCH-1072] a cancel, and the leaving of the last follower, reach the worker as POST /cancel', async () => {
    assert.equal(loadConfig({}).scheduler.cancelDeadlineMs, 5000, 'where nothing is configured');
    const cancels = (job: string) => proxy.of('POST', /^\/cancel$/).filter(({ body }) => body.job_id === job);
    for (const how of ['cancels', 'leaves'] as const) {
      const body = { model: 'alpha', prompt: words(900), priority: 'interactive', max_tries: 1 };
      const job = await client.submit(body);
      const follow = await client.follow(job);
      await follow.says(1);
      assert.deepEqual(cancels(job), []);
      if (how === 'leaves') await follow.leave();
      else await Promise.all([1, 2].map(() => client.done('POST', `/v2/tasks/${job}/cancel`, {})));
      const { attempts } = await client.becomes(job, 'cancelled');
      assert.deepEqual([cancels(job)[0]?.body.token, attempts.length], [`${job}:1`, 1], how);
      if (how === 'cancels') assert.equal((await follow.end()).data.code, 'CANCELLED');
      // Once more changes nothing, also for the worker.
      const asked = cancels(job).length;
      assert.equal((await client.done('POST', `/v2/tasks/${job}/cancel`, {})).state, 'cancelled');
      assert.equal(cancels(job).length, asked);
    }
  });

  test('[ORCH-1060] a stream comes from the worker itself: that its manager hangs does not touch it', async () => {
    const from = proxy.asked.length;
    const follow = await client.run({ model: 'alpha', prompt: words(90), ...ONCE });
    await follow.says(2);
    assert.equal(proxy.asked.slice(from).filter(({ path }) => path === '/execute').length, 1);
    box.child.kill('SIGSTOP');
    try {
      const said = follow.tokens;
      assert.equal((await follow.end()).event, 'end');
      assert.ok(said < follow.tokens, 'it went on while the manager was silent');
      assert.equal(follow.text, ABOUT + words(90));
      await becomes('box', 'unreachable');
      const waits = await client.submit({ model: 'alpha', prompt: 'x', max_tokens: 1, priority: 'batch' });
      assert.equal((await client.job(waits)).state, 'queued', 'nothing new is placed there');
    } finally {
      box.child.kill('SIGCONT');
    }
    await becomes('box', 'ok');
    assert.deepEqual(
      watched.manager.asked.filter(({ path }) => !OF_A_MANAGER.test(path)),
      [],
      'the manager is asked for nothing else',
    );
  });
});

describe('[ORCH-1101] the orders of operators', () => {
  const order = (path: string, body: object = {}) => client.done('POST', path, body);

  test('what the brain can do, and how pools are, is told', async () => {
    const { backends, api_versions, priorities } = await client.done('GET', '/v2/meta/capabilities');
    assert.deepEqual([api_versions, priorities], [['v2'], ['interactive', 'batch']]);
    assert.ok(backends.some(({ models: has }: { models: string[] }) => has?.includes('demo:alpha')));
    await becomes('box', 'ok');
  });

  test('a pool that drains finishes what it has, takes nothing new, and is itself again when that is undone', async () => {
    const follow = await client.run({ model: 'alpha', prompt: words(25), ...ONCE });
    await follow.says(1);
    const drained = await order('/v2/pools/box/drain');
    assert.deepEqual([drained.status, drained.draining], ['draining', { by: 'local', deadline: null }]);
    const waits = await client.submit({ model: 'alpha', prompt: 'x', max_tokens: 1 });
    assert.equal((await follow.end()).event, 'end', 'it finishes');
    await eventually('its worker is gone', async () => (await client.workers()).length === 0);
    assert.match((await client.job(waits)).waiting?.text ?? '', /no pool that can be used/);
    assert.equal((await order('/v2/pools/box/drain', { undo: true })).draining, null);
    assert.equal((await client.becomes(waits, 'succeeded')).attempts.length, 1);
  });

  test('what a pool still runs at the deadline of its drain is ended', async () => {
    const follow = await client.run({ model: 'alpha', prompt: words(900), ...ONCE });
    await follow.says(1);
    const { draining } = await order('/v2/pools/box/drain', { deadline_ms: 300 });
    assert.ok(draining.deadline > 0);
    const { event, data } = await follow.end();
    assert.deepEqual([event, data.code], ['error', 'UNKNOWN_OUTCOME']);
    await order('/v2/pools/box/drain', { undo: true });
  });

  test('a pool is reloaded with another model, and a worker is evicted by name', async () => {
    await client.register('gamma', { vram_bytes: 100 * MIB });
    await order('/v2/pools/box/reload', { new_model_ref: 'gamma' });
    const gamma = await client.worker('demo:gamma');
    assert.equal(gamma.why, 'reload by local');
    await becomes('box', 'ok');
    const evicted = await order(`/v2/workers/${gamma.worker_id}/evict`);
    assert.deepEqual([evicted.pool, evicted.why], ['box', 'evicted by local']);
    await eventually('it is gone', async () => (await client.workers()).length === 0);
  });

  test('what cannot be is refused with a code, and changes nothing', async () => {
    await client.register('huge', { vram_bytes: 10_000 * MIB });
    await client.register('gone');
    await client.done('POST', '/v2/catalog/models/gone/state', { state: 'Retired' });
    const settled = await client.done('GET', '/v2/pools');
    const orders = watched.manager.of('POST', /./).length;
    const cases: [string, string, unknown, number, string][] = [
      ['GET', '/v2/pools/nobody/health', undefined, 404, 'NOT_FOUND'],
      ['GET', '/v2/pools/..%2f..%2fetc%2fpasswd/health', undefined, 404, 'NOT_FOUND'],
      ['GET', '/v2/pools/%00/health', undefined, 404, 'NOT_FOUND'],
      ['POST', '/v2/pools/nobody/drain', {}, 404, 'NOT_FOUND'],
      ['POST', '/v2/pools/box/drain', { deadline_ms: -1 }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/box/drain', { deadline_ms: 'soon' }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/box/drain', { undo: 1 }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/box/drain', { all: true }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/box/drain', '{', 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/nobody/reload', { new_model_ref: 'alpha' }, 404, 'NOT_FOUND'],
      ['POST', '/v2/pools/box/reload', {}, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/box/reload', { new_model_ref: 'never-heard-of' }, 404, 'MODEL_NOT_FOUND'],
      ['POST', '/v2/pools/box/reload', { new_model_ref: 'file:/../x' }, 404, 'MODEL_NOT_FOUND'],
      ['POST', '/v2/pools/box/reload', { new_model_ref: 'gone' }, 422, 'ADMISSION_REJECT'],
      ['POST', '/v2/pools/box/reload', { new_model_ref: 'huge' }, 409, 'INSUFFICIENT_VRAM'],
      ['POST', '/v2/workers/nobody/evict', undefined, 404, 'WORKER_NOT_FOUND'],
      ['POST', '/v2/pools/register', { pool_id: '../x', uri: 'http://127.0.0.1:1' }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/register', { pool_id: 'x', uri: 'ftp://127.0.0.1' }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/register', { pool_id: 'x', uri: 'http://127.0.0.1/path' }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/pools/register', { pool_id: 'x', uri: 'http://192.0.2.1:9200' }, 403, 'FORBIDDEN'],
      ['POST', '/v2/pools/register', { pool_id: 'x', uri: 'http://169.254.169.254' }, 403, 'FORBIDDEN'],
      ['GET', '/v2/pools/box/drain', undefined, 405, 'METHOD_NOT_ALLOWED'],
    ];
    for (const [method, path, body, status, code] of cases) {
      assert.deepEqual(
        await client.refused(method, path, body),
        [status, code],
        `${method} ${path} ${JSON.stringify(body)}`,
      );
    }
    const still = await client.done('GET', '/v2/pools');
    const known = ({ pools }: typeof settled) =>
      pools.map(({ heard_at: _, status: __, ...pool }: { heard_at: number; status: string }) => pool);
    assert.deepEqual(known(still), known(settled));
    assert.equal(watched.manager.of('POST', /./).length, orders, 'no pool was ordered anything');
  });
});

describe('the catalog', () => {
  const path = '/v2/catalog/models';
  const register = (body: object) => client.ask('POST', path, body);

  test('[ORCH-1080] [ORCH-1081] [ORCH-1083] [ORCH-1102] keeps what is known of a model, and says it', async () => {
    const { status, body } = await register({
      model_id: 'little',
      name: 'A little one',
      model_ref: `file:${tiny}`,
      aliases: ['l'],
    });
    assert.equal(status, 200);
    assert.deepEqual(
      [body.model_id, body.name, body.size_bytes, body.context_length, body.lifecycle_state],
      ['little', 'A little one', readFileSync(tiny).length, 2048, 'Active'],
    );
    for (const name of ['little', 'l', encodeURIComponent(`file:${tiny}`)]) {
      assert.deepEqual(await client.done('GET', `${path}/${name}`), body, name);
    }
    const listed = await client.done('GET', path);
    assert.ok(listed.models.some(({ model_id }: { model_id: string }) => model_id === 'little'));
    assert.equal(
      (
        await register({
          model_id: 'little',
          name: 'A little one',
          model_ref: `file:${tiny}`,
          aliases: ['l'],
        })
      ).body.updated_at,
      body.updated_at,
      'the same again is nothing new',
    );
    assert.equal(
      (await client.done('POST', `${path}/little/verify`)).verdict,
      'warn',
      'nothing to compare with',
    );
    assert.equal(
      (await client.done('POST', `${path}/little/state`, { state: 'Retired' })).lifecycle_state,
      'Retired',
    );
    const job = await client.ask('POST', '/v2/tasks', { model: 'l', prompt: 'x' });
    assert.deepEqual(
      [job.status, job.body.error.code, job.body.error.reason],
      [422, 'ADMISSION_REJECT', 'model_retired'],
    );
    assert.equal(
      (await client.done('POST', `${path}/little/state`, { state: 'Active' })).lifecycle_state,
      'Active',
    );
  });

  test('refuses what is no model of ours, and changes nothing by it', async () => {
    const listed = await client.done('GET', path);
    const state = await box.caller.state();
    const hostile = [
      'file:/../../etc/passwd',
      `file:${models}/../secret.gguf`,
      'file:/etc/passwd',
      `file:${models}/link.gguf`,
      'file:relative.gguf',
      'file://host/x.gguf',
      `file:${models}/%2e%2e%2fsecret.gguf`,
      'file:/a\u0000b.gguf',
      'file:/a\\b.gguf',
      'hf:org/tiny::file=../../x.gguf',
      'hf:../..',
      'hf:org/tiny@../../x',
      'hf:org/tiny%2f..',
      'hf:org/never',
      'demo:../x',
      'an-alias',
      '',
      '--help',
      `file:/${'x'.repeat(2000)}`,
      'file:/a\nb',
    ];
    for (const model_ref of hostile) {
      const { status, body } = await register({ model_id: 'bad', model_ref });
      assert.ok(status >= 400 && status < 500, `${model_ref}: ${status}`);
      assert.match(body.error.code, /^(INVALID_PARAMS|MODEL_NOT_FOUND)$/, model_ref);
      assert.ok(
        !JSON.stringify(body).includes('secret.gguf') || model_ref.includes('secret'),
        'nothing is told of what is there',
      );
    }
    const cases: [string, string, unknown, number, string][] = [
      ['POST', path, { model_ref: 'demo:x' }, 400, 'INVALID_PARAMS'],
      ['POST', path, { model_id: '../x', model_ref: 'demo:x' }, 400, 'INVALID_PARAMS'],
      ['POST', path, { model_id: 'x', model_ref: 'demo:x', sha256: 'no' }, 400, 'INVALID_PARAMS'],
      ['POST', path, { model_id: 'x', model_ref: 'demo:x', vram_bytes: -1 }, 400, 'INVALID_PARAMS'],
      ['POST', path, { model_id: 'other', model_ref: 'demo:x', aliases: ['alpha'] }, 409, 'ILLEGAL_STATE'],
      ['POST', path, '[', 400, 'INVALID_PARAMS'],
      ['GET', `${path}/never`, undefined, 404, 'MODEL_NOT_FOUND'],
      ['GET', `${path}/..%2f..%2fetc%2fpasswd`, undefined, 404, 'MODEL_NOT_FOUND'],
      ['GET', `${path}/%00`, undefined, 404, 'MODEL_NOT_FOUND'],
      ['GET', `${path}/%zz`, undefined, 400, 'INVALID_PARAMS'],
      ['POST', `${path}/never/verify`, undefined, 404, 'MODEL_NOT_FOUND'],
      ['POST', `${path}/never/state`, { state: 'Retired' }, 404, 'MODEL_NOT_FOUND'],
      ['POST', `${path}/alpha/state`, { state: 'Asleep' }, 400, 'INVALID_PARAMS'],
      ['POST', `${path}/alpha/state`, {}, 400, 'INVALID_PARAMS'],
      ['DELETE', `${path}/alpha`, undefined, 405, 'METHOD_NOT_ALLOWED'],
    ];
    for (const [method, at, body, status, code] of cases) {
      assert.deepEqual(
        await client.refused(method, at, body),
        [status, code],
        `${method} ${at} ${JSON.stringify(body)}`,
      );
    }
    assert.deepEqual(await client.done('GET', path), listed);
    assert.deepEqual((await box.caller.state()).workers, state.workers);
  });

  test('[ORCH-1082] verifies checksum and signature; a failure warns, and blocks where that is the policy', async () => {
    const strict = new Client(
      (
        await serve(shared, {
          data: join(folder, 'strict'),
          config: { ...QUICK, pools: { ...QUICK.pools, verify_policy: 'block' } },
          env: { ORCHD_ORCHESTRATOR_POOL_MANAGERS: small.url },
        })
      ).url,
    );
    const content = readFileSync(tiny);
    const digest = createHash('sha256').update(content).digest();
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const good = {
      sha256: digest.toString('hex'),
      signature: sign(null, digest, privateKey).toString('base64'),
      public_key: publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64'),
    };
    const forged = { ...good, signature: sign(null, Buffer.from('other'), privateKey).toString('base64') };
    const said = { model_ref: `file:${tiny}`, vram_bytes: MIB };
    await eventually(
      'the pool is heard',
      async () => (await strict.ask('GET', '/v2/pools/small/health')).status === 200,
    );
    const verify = async (at: Client, sums: object): Promise<[string, string, string]> => {
      await at.done('POST', path, { model_id: 'summed', ...said, ...sums });
      const { verdict, checksum, signature, model } = await at.done('POST', `${path}/summed/verify`);
      assert.equal(model.verified.verdict, verdict, 'it is kept');
      return [verdict, checksum, signature];
    };
    const asks = async (at: Client): Promise<[number, string]> => {
      const { status, body } = await at.ask('POST', '/v2/tasks', {
        model: 'summed',
        prompt: 'x',
        max_tokens: 1,
      });
      if (status === 202) await at.done('POST', `/v2/tasks/${body.job_id}/cancel`, {});
      return [status, body.error?.code ?? ''];
    };
    await client.done('POST', path, { model_id: 'little', model_ref: 'demo:little' });
    assert.deepEqual(await verify(client, good), ['pass', 'pass', 'pass']);
    assert.deepEqual(await verify(client, { ...good, sha256: '0'.repeat(64) }), ['warn', 'fail', 'pass']);
    assert.deepEqual(await asks(client), [202, ''], 'a warning does not block');
    assert.deepEqual(await verify(client, forged), ['warn', 'pass', 'fail']);
    assert.deepEqual(await verify(strict, forged), ['fail', 'pass', 'fail']);
    assert.deepEqual(await asks(strict), [422, 'MODEL_UNVERIFIED']);
    assert.deepEqual(await verify(strict, { ...good, sha256: '0'.repeat(64) }), ['fail', 'fail', 'pass']);
    assert.deepEqual(await asks(strict), [422, 'MODEL_UNVERIFIED']);
    assert.deepEqual(await verify(strict, good), ['pass', 'pass', 'pass']);
    assert.deepEqual(await asks(strict), [202, ''], 'the right file may be used again');
    const response = await fetch(`${strict.url}${path}/summed/verify`, {
      method: 'POST',
      headers: { accept: 'text/event-stream' },
    });
    const events: string[] = [];
    for await (const { event } of readEvents(response.body as AsyncIterable<Uint8Array>)) events.push(event);
    assert.deepEqual([events[0], events.at(-1)], ['progress', 'end']);
  });

  test('[ORCH-1084] an alias, a file and a repository become one reference, pinned, that the pool is given', async () => {
    const { model_ref } = await client.done('POST', path, {
      model_id: 'from-hub',
      model_ref: 'hf:org/tiny',
      aliases: ['hub'],
      vram_bytes: 300 * MIB,
    });
    assert.equal(model_ref, `hf:org/tiny@${SHA}::file=tiny.Q4_K_M.gguf`, 'revision and file are pinned');
    for (const [given, pinned] of [
      ['@v1', `@${OLD_SHA}::file=tiny.Q4_K_M.gguf`],
      ['::file=tiny.Q8_0.gguf', `@${SHA}::file=tiny.Q8_0.gguf`],
      [`@${OLD_SHA}::file=tiny.Q4_K_M.gguf`, `@${OLD_SHA}::file=tiny.Q4_K_M.gguf`],
    ] as const) {
      const registered = await client.done('POST', path, {
        model_id: 'asked',
        model_ref: `hf:org/tiny${given}`,
      });
      assert.equal(registered.model_ref, `hf:org/tiny${pinned}`, given);
    }
    const asked = watched.manager.asked.length;
    for (const model of ['hub', 'from-hub', 'hf:org/tiny', model_ref]) {
      const follow = await client.run({ model, prompt: 'one', max_tokens: 3, ...ONCE });
      assert.equal((await follow.end()).event, 'end', model);
    }
    const starts = (from: number) =>
      watched.manager.asked.slice(from).filter((each) => each.path === '/v2/workers/start');
    assert.deepEqual(
      starts(asked).map(({ body }) => body.model_ref),
      [model_ref],
      'one worker for all of its names',
    );
    await client.done('POST', path, { model_id: 'summed', model_ref: `file:${tiny}`, vram_bytes: 5 * MIB });
    const follow = await client.run({ model: `file:${tiny}`, prompt: 'x', max_tokens: 1, ...ONCE });
    assert.equal((await follow.end()).event, 'end');
    assert.ok(starts(0).some(({ body }) => body.model_ref === `file:${tiny}`));
  });
});

describe('[ORCH-1100] what clients ask', () => {
  test('a job is taken, followed and cancelled', async () => {
    const taken = await client.ask('POST', '/v2/tasks', { model: 'gamma', prompt: words(900) });
    assert.deepEqual([taken.status, typeof taken.body.job_id], [202, 'string']);
    const follow = await client.follow(taken.body.job_id);
    await follow.says(1);
    assert.equal((await client.ask('POST', `/v2/tasks/${taken.body.job_id}/cancel`, {})).status, 202);
    const { event, data } = await follow.end();
    assert.deepEqual([event, data.code, data.state], ['error', 'CANCELLED', 'cancelled']);
    const cases: [string, string, unknown, number, string][] = [
      ['POST', '/v2/tasks', { model: 'never', prompt: 'x' }, 404, 'MODEL_NOT_FOUND'],
      ['POST', '/v2/tasks', { model: 'file:/../x', prompt: 'x' }, 404, 'MODEL_NOT_FOUND'],
      ['POST', '/v2/tasks', { model: 'gamma\u0000', prompt: 'x' }, 400, 'INVALID_PARAMS'],
      ['POST', '/v2/tasks', { model: 'gamma', prompt: 7 }, 400, 'INVALID_PARAMS'],
      ['GET', '/v2/tasks/nobody/events', undefined, 404, 'NOT_FOUND'],
      ['GET', '/v2/tasks/..%2fx/events', undefined, 404, 'NOT_FOUND'],
      ['POST', '/v2/tasks/nobody/cancel', {}, 404, 'NOT_FOUND'],
    ];
    for (const [method, at, body, status, code] of cases) {
      assert.deepEqual(await client.refused(method, at, body), [status, code], `${method} ${at}`);
    }
  });

  test('a session tells what it has used; its end is the end of all that is under way in it', async () => {
    const ask = { model: 'gamma', session_id: 'chat-1', ...ONCE };
    assert.equal((await (await client.run({ ...ask, prompt: 'one two', max_tokens: 3 })).end()).event, 'end');
    const follow = await client.run({ ...ask, prompt: words(900) });
    await follow.says(1);
    const session = await client.done('GET', '/v2/sessions/chat-1');
    assert.deepEqual([session.session_id, session.turns, session.tokens_used], ['chat-1', 1, 5]);
    assert.deepEqual(
      session.jobs.map(({ state }: { state: string }) => state),
      ['running'],
    );
    assert.match(session.backend, /^box\/w-/);
    assert.equal((await client.ask('DELETE', '/v2/sessions/chat-1')).status, 204);
    assert.equal((await follow.end()).data.code, 'CANCELLED');
    for (const at of ['chat-1', 'nobody', '..%2f..%2fx', '%00']) {
      for (const method of ['GET', 'DELETE']) {
        assert.deepEqual(
          await client.refused(method, `/v2/sessions/${at}`),
          [404, 'NOT_FOUND'],
          `${method} ${at}`,
        );
      }
    }
  });
});
