/** The rows of worker pools, which others read: each is written and removed in the commit of its record. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import type { Change } from '../../model/records.ts';
import { WORKER_POOL_STATUSES, type WorkerPoolRecord } from '../../model/worker-pool-record.ts';
import { type Batch, commitBatch } from './commit.ts';
import { connector, type Sql } from './sql.ts';
import { migrate } from './tables.ts';

let server: TestServer;
let sql: Sql;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

async function fresh(): Promise<void> {
  sql = await connector(await server.database())();
  await migrate(sql);
  seq = 0;
}

const STARTED = Date.UTC(2026, 10, 19, 1, 2, 3, 456);

const POOL: WorkerPoolRecord = {
  v: 1,
  provisioner: 'managers',
  agent: 'embedder',
  model: 'large',
  adapter: '/adapters/news.gguf',
  variant: 'fp16',
  desired: 3,
  holdMs: 90_000,
  metadata: { team: 'news' },
  status: 'starting',
  serves: 'large-8b',
  spawned: 1,
  startedAt: STARTED,
  heartbeatAt: STARTED + 1500,
  drainBy: undefined,
  by: 'ann',
  at: STARTED,
};

const BARE: WorkerPoolRecord = {
  ...POOL,
  ...{ agent: undefined, model: undefined, adapter: undefined, heartbeatAt: undefined },
  ...{ desired: 0, spawned: 0, holdMs: 0 },
  status: 'running',
};

let seq = 0;
async function commit(
  ...records: readonly (readonly [id: string, after: WorkerPoolRecord | null])[]
): Promise<boolean> {
  const changes = records.map(
    ([id, record]): Change => ({ kind: 'worker_pool', id, after: record, cause: 'changed' }),
  );
  const batch: Batch = { changes, charges: [], after: seq, now: STARTED };
  const isHeld = await commitBatch(sql, batch, 0);
  if (isHeld) seq += changes.length;
  return isHeld;
}

const rows = async (columns = 'pool_id, status'): Promise<unknown[][]> =>
  (await sql.query<Record<string, unknown>>(`SELECT ${columns} FROM worker_pools ORDER BY pool_id`)).map(
    (row) => Object.values(row),
  );
const records = (): Promise<{ id: string }[]> =>
  sql.query("SELECT id FROM orchestrator_records WHERE kind = 'worker_pool' ORDER BY id");

test('[NEWS-1] the row of a worker pool has every value of its record, with its times in UTC', async () => {
  await fresh();
  await commit(['w', POOL], ['bare', BARE]);
  const columns = `pool_id, agent_name, model_id, adapter, desired_workers, spawned_workers,
    CAST(started_at AS CHAR), CAST(last_heartbeat AS CHAR), status, hold_seconds`;
  assert.deepEqual(await rows(columns), [
    ['bare', null, null, null, 0, 0, '2026-11-19 01:02:03.456000', null, 'running', 0],
    [
      ...['w', 'embedder', 'large', '/adapters/news.gguf', 3, 1],
      ...['2026-11-19 01:02:03.456000', '2026-11-19 01:02:04.956000', 'starting', 90],
    ],
  ]);
  const [, [text] = []] = await rows('metadata');
  assert.deepEqual(JSON.parse(String(text)), {
    ...{ team: 'news', provisioner: 'managers', variant: 'fp16', serves: 'large-8b', by: 'ann' },
  });
  await sql.close();
});

test('[NEWS-1] the row of a worker pool is written, changed and removed in the commit of its record', async () => {
  await fresh();
  await commit(['w', POOL], ['x', POOL]);
  for (const status of WORKER_POOL_STATUSES) {
    await commit(['w', { ...POOL, status }]);
    assert.deepEqual(await rows(), [
      ['w', status],
      ['x', 'starting'],
    ]);
  }
  await commit(['x', { ...POOL, status: 'stopped' }], ['x', null], ['y', null]);
  assert.deepEqual([await rows(), await records()], [[['w', 'evicted']], [{ id: 'w' }]]);
  seq--;
  assert.equal(await commit(['w', null], ['z', POOL]), false, 'the fence does not hold');
  seq++;
  assert.deepEqual([await rows(), await records()], [[['w', 'evicted']], [{ id: 'w' }]]);
  await sql.close();
});

test('names too long for their columns are cut between characters; the record keeps them whole', async () => {
  await fresh();
  const long = '🐦'.repeat(300);
  const id = 'p'.repeat(128);
  await commit([
    id,
    { ...POOL, agent: long, model: long, adapter: long, metadata: { note: long.repeat(100) } },
  ]);
  const kept = '🐦'.repeat(255);
  assert.deepEqual(await rows('pool_id, agent_name, model_id, adapter, CHAR_LENGTH(metadata) > 30000'), [
    [id, kept, kept, kept, 1],
  ]);
  const [row] = await sql.query<{ record: string }>(
    "SELECT record FROM orchestrator_records WHERE kind = 'worker_pool'",
  );
  assert.equal((JSON.parse(row?.record ?? '') as WorkerPoolRecord).adapter, long);
  await sql.close();
});
