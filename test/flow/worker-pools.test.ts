/** Worker pools whose workers a real pool manager starts: they follow their wished size through kills, on both stores. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { WorkerPoolView } from '../../src/model/http/worker-pools.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { eventually, MIB } from './site-client.ts';
import { endsOf, pidOf, Site, words } from './site-kit.ts';

/** The size that pools grow to; `WORKER_POOL_SIZE=8` makes it larger. */
const SIZE = Number(process.env['WORKER_POOL_SIZE'] ?? 3);

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

/** A site with a worker pool `w`, and everything that knows of its size. */
class Pools {
  readonly site: Site;
  readonly #url: string | undefined;
  #jobs = 0;

  constructor(site: Site, url: string | undefined) {
    this.site = site;
    this.#url = url;
  }

  row(): Promise<WorkerPoolView> {
    return this.site.client.done('GET', '/workers/pool/w');
  }

  order(method: string, path: string, body?: object): Promise<WorkerPoolView> {
    return this.site.client.done(method, `/workers/pool${path}`, body);
  }

  /** The ids of the workers that are processes now. */
  async processes(): Promise<string[]> {
    const state = await this.site.pool.caller.state();
    return state.workers.filter(({ status }) => status !== 'failed').map(({ id }) => id);
  }

  /** Row, table and processes say the same. */
  async becomes(status: WorkerPoolView['status'], workers: number): Promise<void> {
    await eventually(`${status} with ${workers}`, async () => {
      const row = await this.row();
      const here = await this.processes();
      return row.status === status && row.spawned_workers === workers && here.length === workers;
    });
    if (this.#url === undefined) return;
    const sql = await connector(this.#url)();
    try {
      const [row] = await sql.query<{ status: string; spawned: number }>(
        "SELECT status, spawned_workers AS spawned FROM worker_pools WHERE pool_id = 'w'",
      );
      assert.deepEqual([row?.status, row?.spawned], [status, workers], 'the table');
    } finally {
      await sql.close();
    }
  }

  async submit(count: number, tokens = 5): Promise<string[]> {
    const ids = Array.from({ length: count }, () => `j${this.#jobs++}`);
    for (const job_id of ids) await this.site.client.submit({ job_id, model: 'm', prompt: words(tokens) });
    return ids;
  }

  /** All have succeeded, and none was begun twice. */
  async once(ids: readonly string[]): Promise<void> {
    for (const id of ids) await this.site.client.becomes(id, 'succeeded');
    assert.deepEqual(
      ids.filter((id) => this.site.begun(id) !== 1),
      [],
    );
  }
}

for (const store of ['journal', 'mariadb'] as const) {
  test(`a worker pool grows, shrinks, drains and is evicted over kills: rows and processes agree, and no job is lost or doubled (${store})`, async (context) => {
    const t = endsOf(context);
    const url = store === 'mariadb' ? await server.database() : undefined;
    const config = url === undefined ? {} : { store, mariadb: { url } };
    const site = await Site.start(t, { config });
    const pools = new Pools(site, url);
    const { client } = site;
    await client.register('m', { slots: 1 });
    const wish = { pool_id: 'w', model_id: 'm', desired_workers: 1, hold_seconds: 0 };
    assert.equal((await pools.order('POST', '', wish)).status, 'starting');
    await pools.becomes('running', 1);

    const first = await pools.submit(4 * SIZE);
    await pools.order('PUT', '/w', { desired_workers: SIZE });
    await pools.becomes('running', SIZE);
    const grown = await pools.processes();
    await site.brain.kill();
    await site.startBrain({ port: site.brain.port });
    await site.heard();
    await pools.becomes('running', SIZE);
    assert.deepEqual((await pools.processes()).sort(), grown.sort(), 'the next brain starts none anew');
    await pools.once(first);

    process.kill(pidOf(await site.pool.caller.state(), grown[0] as string), 'SIGKILL');
    await eventually('the lost one is replaced', async () => {
      const here = await pools.processes();
      return here.length === SIZE && !here.includes(grown[0] as string);
    });
    await pools.becomes('running', SIZE);

    const second = await pools.submit(2 * SIZE);
    await pools.order('PUT', '/w', { desired_workers: 1 });
    await pools.becomes('running', 1);
    await pools.once(second);

    const [long] = await pools.submit(1, 400);
    await client.becomes(long as string, 'running');
    assert.equal((await pools.order('POST', '/w/drain', { grace_seconds: 600 })).status, 'draining');
    assert.deepEqual(await client.refused('PUT', '/workers/pool/w', { desired_workers: 2 }), [
      409,
      'ILLEGAL_STATE',
    ]);
    assert.equal((await client.job(long as string)).state, 'running', 'what runs may finish');
    await client.done('POST', `/v2/tasks/${long}/cancel`, {});
    await pools.becomes('stopped', 0);

    await pools.order('POST', '', { ...wish, desired_workers: 2 });
    await pools.becomes('running', 2);
    await pools.order('POST', '/w/evict');
    await pools.becomes('evicted', 0);
    assert.deepEqual(await client.done('DELETE', '/workers/pool/w'), { deleted: true, pool_id: 'w' });
    assert.deepEqual(await client.refused('GET', '/workers/pool/w'), [404, 'NOT_FOUND']);
    assert.deepEqual(await client.refused('POST', '/workers/pool/w/heartbeat', { spawned_workers: 1 }), [
      404,
      'NOT_FOUND',
    ]);
  });
}

test('what cannot be a worker pool is refused with its code, and changes nothing', async (context) => {
  const site = await Site.start(endsOf(context));
  const { client } = site;
  await client.register('m');
  await client.register('huge', { vram_bytes: 10_000_000 * MIB });
  const refused = (body: object): Promise<[number, string]> => client.refused('POST', '/workers/pool', body);
  assert.deepEqual(await refused({ model_id: 'nobody' }), [404, 'MODEL_NOT_FOUND']);
  assert.deepEqual(await refused({ model_id: 'huge' }), [409, 'INSUFFICIENT_VRAM']);
  assert.deepEqual(await refused({ model_id: 'm', desired_workers: 1e9 }), [400, 'INVALID_PARAMS']);
  assert.deepEqual(await refused({ provisioner: 'managers' }), [400, 'INVALID_PARAMS']);
  assert.deepEqual(await refused({ model_id: 'm', hold_seconds: -1 }), [400, 'INVALID_PARAMS']);
  assert.deepEqual(await refused({ model_id: 'm', pool_id: '../x' }), [400, 'INVALID_PARAMS']);
  const unnameable = { provisioner: 'external', pool_id: 'p'.repeat(65) };
  assert.deepEqual(await refused(unnameable), [400, 'INVALID_PARAMS']);
  assert.deepEqual((await client.done('GET', '/workers/pool')).pools, []);
});
