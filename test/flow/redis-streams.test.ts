/** The streams of Redis as programs in any language see them: a real server, and the plain commands of Redis. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { entriesOf, type OwnRedis, testRedis, until } from '../fakes/redis-kit.ts';
import { orchd } from './cli-process.ts';
import { isDatabase, LASTING, onStores, within } from './flow-kit.ts';
import { type ServerProcess, serve, testFolder } from './server-process.ts';

const PREFIX = 'stream:orchestrator:';
const [JOBS, GPU_JOBS] = [`${PREFIX}inference_jobs`, `${PREFIX}inference_jobs:gpu`];
const [PRELOADS, INGEST, CONTROL, DLQ] = ['preloads', 'ingest_events', 'control', 'dlq'].map(
  (name) => PREFIX + name,
) as [string, string, string, string];
/** Every stream with the groups that read it. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  [JOBS]: ['cg:inference'],
  [GPU_JOBS]: ['cg:inference:gpu'],
  [PRELOADS]: ['cg:preloads:workers'],
  [INGEST]: ['cg:orchestrator'],
  [CONTROL]: ['cg:orchestrator'],
  [DLQ]: [],
};

type Entry = Record<string, string>;

class Site {
  readonly redis: OwnRedis;
  readonly #t: TestContext;
  readonly #data: string;
  readonly #store: object;
  #server!: ServerProcess;
  #admin = '';

  constructor(t: TestContext, redis: OwnRedis, data: string) {
    this.#t = t;
    this.redis = redis;
    this.#data = isDatabase(data) ? `${testFolder(t)}/data` : data;
    this.#store = isDatabase(data) ? { store: 'mariadb', mariadb: { url: data } } : {};
  }

  async token(role: string): Promise<string> {
    const { out } = await orchd(['token', 'create', role, '--role', role, '--data', this.#data]);
    return /orchd_\S+/.exec(out)?.[0] ?? '';
  }

  async start(redis: object = {}): Promise<void> {
    this.#admin ||= await this.token('admin');
    const types = { echo: { argv: ['cat'] }, die: { argv: ['false'] } };
    this.#server = await serve(this.#t, {
      data: this.#data,
      config: {
        ...this.#store,
        redis: { url: this.redis.url, claim_idle_ms: 300, ...redis },
        orchestrator: { recovery: { sweep_interval_ms: 100 } },
        backends: { demo: false, commands: [{ name: 'c', slots: 4, types }] },
      },
    });
  }

  kill(): Promise<void> {
    return this.#server.kill();
  }

  async call<T>(method: string, path: string, body?: object): Promise<T> {
    const answer = await fetch(this.#server.url + path, {
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${this.#admin}` },
      ...(body && { body: JSON.stringify(body) }),
    });
    const said = (await answer.json()) as T;
    assert.ok(answer.ok, JSON.stringify(said));
    return said;
  }

  async ends(id: string, state: string): Promise<void> {
    const job = () => this.call<{ state?: string }>('GET', `/v2/tasks/${id}`).catch(() => undefined);
    await within(until(async () => (await job())?.state === state));
  }

  add(key: string, fields: Entry): Promise<unknown> {
    return this.redis.call('XADD', key, '*', ...Object.entries(fields).flat());
  }

  /** What a reader of the group hears next; it acknowledges nothing. */
  async hears(key: string, name: string): Promise<Entry> {
    const read = ['XREADGROUP', 'GROUP', GROUPS[key]?.[0] ?? '', name, 'COUNT', '1', 'STREAMS', key, '>'];
    let flat: readonly string[] = [];
    await within(
      until(async () => {
        const reply = (await this.redis.call(...read).catch(() => null)) as
          | [string, [string, string[]][]][]
          | null;
        flat = reply?.[0]?.[1][0]?.[1] ?? [];
        return flat.length > 0;
      }),
    );
    return Object.fromEntries(
      Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]]),
    );
  }

  /** Every entry of the stream is gone, and none is pending for its group. */
  async isDone(key: string): Promise<void> {
    const pending = async () =>
      ((await this.redis.call('XPENDING', key, GROUPS[key]?.[0] ?? '')) as unknown[])[0];
    await within(until(async () => (await this.redis.call('XLEN', key)) === 0 && (await pending()) === 0));
  }

  async letter(key: string): Promise<Entry> {
    let found: Entry | undefined;
    await within(
      until(async () => {
        found = (await entriesOf(this.redis, DLQ).catch(() => [])).findLast(({ stream }) => stream === key);
        return found !== undefined;
      }),
    );
    return found as Entry;
  }
}

async function jobsAreHeard(site: Site, pool: string, key: string): Promise<void> {
  const body = { pool, slots: 4, types: ['work'], listens: 'redis', lease_ttl_ms: 600_000 };
  const { consumer_id } = await site.call<{ consumer_id: string }>('POST', '/v2/consumers', body);
  const id = `job-${pool}`;
  await site.call('POST', '/v2/tasks', { job_id: id, type: 'work', payload: { n: 1 }, labels: { pool } });
  const expected = { job_id: id, token: `${id}:1`, type: 'work', payload: '{"n":1}' };
  assert.deepEqual(await site.hears(key, 'dead'), expected);
  assert.deepEqual(await site.hears(key, 'alive'), expected, 'whoever has read it may have died');
  const path = `/v2/consumers/${consumer_id}`;
  await site.call('POST', `${path}/claim`, { claim: 1, max: 1, tokens: [`${id}:1`] });
  assert.equal(await site.redis.call('XLEN', key), 1, 'it stays until the job has ended');
  await site.call('POST', `${path}/results`, { results: [{ token: `${id}:1`, ok: true, result: 1 }] });
  await site.isDone(key);
}

async function poolsAreHeard(site: Site): Promise<void> {
  const row = await site.call<{ ordered_at: number }>('POST', '/workers/pool', {
    pool_id: 'gpu',
    agent_name: 'embedder',
    desired_workers: 2,
  });
  const expected = {
    ...{ pool_id: 'gpu', agent_name: 'embedder', desired_workers: '2', wished_workers: '2' },
    ...{ status: 'starting', ordered_at: String(row.ordered_at) },
  };
  assert.deepEqual(await site.hears(PRELOADS, 'dead'), expected);
  assert.deepEqual(await site.hears(PRELOADS, 'alive'), expected);
  await site.call('POST', '/workers/pool/gpu/heartbeat', { spawned_workers: 2 });
  await site.isDone(PRELOADS);
}

onStores(
  '[NEWS-4] the streams in Redis, their groups, their fields and their ends are those that are written down',
  LASTING,
  async (t, data) => {
    const redis = await testRedis(t);
    const site = new Site(t, redis, data);
    const [reader, operator] = [await site.token('read'), await site.token('operate')];

    await site.start();
    const dies = await site.add(INGEST, { job: '{"type":"die","max_tries":1}' });
    await site.ends(`ingest-${dies}`, 'dead');
    const redrive = { order: 'redrive_job', job_id: `ingest-${dies}`, token: operator };
    await site.add(CONTROL, redrive);
    await site.add(INGEST, { job: '{"type":"echo","job_id":"one","payload":1}' });
    await site.ends('one', 'succeeded');
    await site.isDone(INGEST);
    assert.deepEqual(await redis.call('XINFO', 'GROUPS', CONTROL), [], 'nobody reads orders');
    await site.kill();

    await site.start({
      control: true,
      events: [{ event: 'memory.ingest_article', job: { type: 'echo', job_id: 'archive' } }],
    });
    await site.isDone(CONTROL);
    await within(until(async () => (await entriesOf(redis, DLQ)).length === 2));
    const [first, second] = await entriesOf(redis, DLQ);
    const { last_error: said, ...fields } = second ?? {};
    assert.deepEqual(fields, {
      ...{ job_id: `ingest-${dies}`, origin_id: dies, attempts: '2' },
      ...{ reason: 'failed', type: 'die', tenant: 'default' },
    });
    assert.match(said ?? '', /^EXECUTION_FAILED: /);
    assert.equal(first?.['attempts'], '1');

    await site.add(INGEST, { event: 'memory.ingest_article', payload: '{"id":7}' });
    await site.ends('archive', 'succeeded');
    await jobsAreHeard(site, 'default', JOBS);
    await jobsAreHeard(site, 'gpu', GPU_JOBS);
    await poolsAreHeard(site);

    const bad: Readonly<Record<string, readonly [Entry, RegExp]>> = {
      [JOBS]: [{ job_id: 'x' }, /^it has no job_id, token and type$/],
      [GPU_JOBS]: [{ token: 'x' }, /^it has no job_id, token and type$/],
      [PRELOADS]: [{ pool_id: 'x' }, /^it has no pool_id, status and ordered_at$/],
      [INGEST]: [{ job: '{' }, /^INVALID_PARAMS: /],
      [CONTROL]: [{ order: 'no such', token: operator }, /^INVALID_PARAMS: /],
    };
    for (const [key, [entry, reason]] of Object.entries(bad)) {
      const id = await site.add(key, entry);
      const letter = await site.letter(key);
      assert.match(letter['reason'] ?? '', reason);
      assert.equal(letter['entry_id'], id);
      await site.isDone(key);
    }
    for (const [token, code] of [
      ['', 'UNAUTHORIZED'],
      [reader, 'FORBIDDEN'],
    ] as const) {
      const id = await site.add(CONTROL, { ...redrive, token });
      await within(until(async () => (await site.letter(CONTROL))['entry_id'] === id));
      assert.equal((await site.letter(CONTROL))['reason']?.split(':')[0], code);
    }

    const keys = (await redis.call('KEYS', '*')) as string[];
    assert.deepEqual(keys.sort(), Object.keys(GROUPS).sort());
    for (const [key, expected] of Object.entries(GROUPS)) {
      const groups = (await redis.call('XINFO', 'GROUPS', key)) as string[][];
      assert.deepEqual(
        groups.map((group) => group[group.indexOf('name') + 1]),
        expected,
      );
    }
    const stats = String(await redis.call('INFO', 'commandstats'));
    for (const command of ['xreadgroup', 'xack', 'xdel', 'xautoclaim'])
      assert.match(stats, new RegExp(`cmdstat_${command}:calls=\\d`));
  },
);
