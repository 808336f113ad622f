/** Consumers that hear of jobs over Redis and claim them from a server, with Redis emptied and killed meanwhile. */
import assert from 'node:assert/strict';
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

test('a server says in /health that its Redis may drop keys, or is away, and serves consumers that ask', async (t) => {
  const redis = await testRedis(t, { args: ['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'] });
  const server = await serve(t, { data: testFolder(t), config: { redis: { url: redis.url } } });
  const health = async (): Promise<{ status: string; redis_problems: readonly string[] }> =>
    (await fetch(`${server.url}/health`)).json() as never;
  const says = (what: RegExp) => async (): Promise<boolean> =>
    (await health()).redis_problems.some((problem) => what.test(problem));
  await until(says(/maxmemory-policy noeviction/));
  assert.equal((await health()).status, 'degraded');
  await redis.kill();
  await until(says(/does not answer/));
  const body = { pool: 'p', slots: 1, types: ['work'], listens: 'redis' };
  const { consumer_id } = await post<Registered>(server, '/v2/consumers', body);
  await post(server, '/v2/tasks', { type: 'work', job_id: 'a', payload: 1 });
  const claim = { claim: 1, max: 1, wait_ms: 20_000 };
  const { jobs } = await post<{ jobs: { token: string }[] }>(
    server,
    `/v2/consumers/${consumer_id}/claim`,
    claim,
  );
  assert.deepEqual(
    jobs.map(({ token }) => token),
    ['a:1'],
  );
});
