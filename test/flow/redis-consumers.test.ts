/** Consumers that hear of jobs over Redis and claim them from a server, with Redis emptied and killed meanwhile. */
import assert from 'node:assert/strict';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type OwnRedis, testRedis, until } from '../fakes/redis-kit.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

interface Registered {
  readonly consumer_id: string;
  readonly stream: { readonly key: string; readonly group: string };
}

async function post<T>(server: ServerProcess, path: string, body: unknown): Promise<T> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${server.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  const value = (await answer.json()) as T;
  assert.ok(answer.ok, `${answer.status} ${JSON.stringify(value)}`);
  return value;
}

/** Claims only what it has heard, so that nothing comes by long poll. */
class Listener {
  readonly #server: ServerProcess;
  readonly #redis: OwnRedis;
  readonly #as: Registered;
  #claims = 0;
  /** Every token that it has begun. */
  readonly ledger: string[] = [];

  private constructor(server: ServerProcess, redis: OwnRedis, registered: Registered) {
    this.#server = server;
    this.#redis = redis;
    this.#as = registered;
  }

  static async of(server: ServerProcess, redis: OwnRedis, pool: string): Promise<Listener> {
    const body = { pool, slots: 10, types: ['work'], listens: 'redis', lease_ttl_ms: 120_000 };
    return new Listener(server, redis, await post<Registered>(server, '/v2/consumers', body));
  }

  get stream(): Registered['stream'] {
    return this.#as.stream;
  }

  async round(): Promise<void> {
    const { key, group } = this.#as.stream;
    const read = ['XREADGROUP', 'GROUP', group, 'c1', 'COUNT', '10', 'STREAMS', key, '>'];
    const reply = (await this.#redis.call(...read).catch(() => [])) ?? [];
    const streams = reply as readonly (readonly [string, readonly (readonly [string, string[]])[]])[];
    const heard = streams.flatMap(([, entries]) =>
      entries.map(([, flat]) => flat[flat.indexOf('token') + 1]!),
    );
    if (heard.length === 0) return;
    const path = `/v2/consumers/${this.#as.consumer_id}`;
    const claim = { claim: ++this.#claims, max: 10, tokens: heard };
    const { jobs } = await post<{ jobs: { token: string }[] }>(this.#server, `${path}/claim`, claim);
    this.ledger.push(...jobs.map(({ token }) => token));
    const results = jobs.map(({ token }) => ({ token, ok: true, result: token }));
    if (results.length > 0) await post(this.#server, `${path}/results`, { results });
  }
}

async function site(t: TestContext): Promise<{ redis: OwnRedis; server: ServerProcess }> {
  const redis = await testRedis(t);
  const config = { redis: { url: redis.url, claim_idle_ms: 500 } };
  return { redis, server: await serve(t, { data: testFolder(t), config }) };
}

for (const pool of ['default', 'gpu'])
  test(`a consumer of the pool ${pool} hears of every job, whatever becomes of Redis, and begins each once`, async (t) => {
    const { redis, server } = await site(t);
    const listener = await Listener.of(server, redis, pool);
    const ids = Array.from({ length: 60 }, (_, n) => `job-${n}`);
    for (const id of ids) await post(server, '/v2/tasks', { type: 'work', job_id: id, payload: id });
    const disturbances = [
      () => redis.call('FLUSHALL'),
      async () => {
        await redis.kill();
        await redis.start('empty');
      },
      () => redis.call('XGROUP', 'DESTROY', listener.stream.key, listener.stream.group),
      // Read by a consumer that dies before it claims.
      () =>
        redis
          .call('XREADGROUP', 'GROUP', listener.stream.group, 'dead', 'STREAMS', listener.stream.key, '>')
          .catch(() => undefined),
    ];
    await until(async () => {
      const before = listener.ledger.length;
      await listener.round();
      if (before < 40 && Math.floor(listener.ledger.length / 10) > Math.floor(before / 10))
        await disturbances.shift()?.();
      return listener.ledger.length >= ids.length;
    });
    assert.equal(disturbances.length, 0);
    assert.deepEqual(
      [...listener.ledger].sort(),
      ids.map((id) => `${id}:1`).sort(),
      'each attempt was claimed once, and no job needed a second',
    );
    await until(async () => (await redis.call('XLEN', listener.stream.key)) === 0);
    for (const id of ids) {
      const job = (await (await fetch(`${server.url}/v2/tasks/${id}`)).json()) as { state: string };
      assert.equal(job.state, 'succeeded');
    }
  });

/** A server that says it is older than it is. */
async function oldRedis(t: TestContext): Promise<string> {
  const redis = await testRedis(t);
  const server = createServer((near) => {
    const far = createConnection(redis.port, '127.0.0.1');
    for (const socket of [near, far]) socket.on('error', () => undefined);
    near.on('close', () => far.destroy()).pipe(far);
    far.on('close', () => near.destroy());
    far.on('data', (data) =>
      near.write(
        Buffer.from(data.toString('latin1').replace('redis_version:7.', 'redis_version:6.'), 'latin1'),
      ),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const urlWith = async (t: TestContext, ...args: readonly string[]): Promise<string> =>
  (await testRedis(t, { args })).url;

/** What can be wrong with a Redis, what is said about it, and the address of one. */
const UNFIT: readonly (readonly [string, RegExp, (t: TestContext) => Promise<string>])[] = [
  ['too old', /6\.\S+ is too old: it must be 7\.0/, oldRedis],
  ['full', /is full: raise maxmemory/, (t) => urlWith(t, '--maxmemory', '500kb')],
  [
    'one that drops keys',
    /set maxmemory-policy noeviction/,
    (t) => urlWith(t, '--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'),
  ],
  [
    'read-only',
    /is a read-only replica/,
    async (t) => urlWith(t, '--replicaof', '127.0.0.1', String((await testRedis(t)).port)),
  ],
  [
    'one that allows nothing',
    /the user of Redis lacks rights: .*XADD/,
    async (t) => {
      const redis = await testRedis(t);
      await redis.call('ACL', 'SETUSER', 'default', '-@all', '+info', '+multi', '+discard', '+select');
      return redis.url;
    },
  ],
  [
    'away',
    /Redis does not answer/,
    async (t) => {
      const redis = await testRedis(t);
      await redis.kill();
      return redis.url;
    },
  ],
];

for (const [name, words, urlOf] of UNFIT)
  test(`with a Redis that is ${name}, a server says so at its start and in /health, and consumers get their work by long poll`, async (t) => {
    const config = { redis: { url: await urlOf(t) } };
    const server = await serve(t, { data: testFolder(t), config });
    await server.saw('out', new RegExp(`"level":"warn".*${words.source}`));
    type Health = { status: string; redis_problems: readonly string[] };
    const health = (await (await fetch(`${server.url}/health`)).json()) as Health;
    assert.equal(health.status, 'degraded');
    assert.match(health.redis_problems.join(), words);
    const body = { pool: 'p', slots: 1, types: ['work'], listens: 'redis' };
    const { consumer_id } = await post<Registered>(server, '/v2/consumers', body);
    const path = `/v2/consumers/${consumer_id}`;
    const claimed = post<{ jobs: { token: string }[] }>(server, `${path}/claim`, {
      ...{ claim: 1, max: 1, wait_ms: 30_000 },
    });
    await post(server, '/v2/tasks', { type: 'work', job_id: 'a', payload: 1 });
    const { jobs } = await claimed;
    assert.deepEqual(
      jobs.map(({ token }) => token),
      ['a:1'],
    );
    const results = [{ token: 'a:1', ok: true, result: 1 }];
    await post(server, `${path}/results`, { results });
    const job = (await (await fetch(`${server.url}/v2/tasks/a`)).json()) as { state: string };
    assert.equal(job.state, 'succeeded');
  });
