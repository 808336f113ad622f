import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import { connector, type Sql } from './sql.ts';
import { migrate } from './tables.ts';

let server: TestServer;
let sql: Sql;
before(async () => {
  server = await testMariaDb();
  sql = await connector(await server.database())();
  await migrate(sql);
});
after(async () => {
  await sql.close();
  await server.stop();
});

/** The tables that others know, with the columns they know. */
const TABLES: Record<string, readonly string[]> = {
  orchestrator_leases: [
    'token',
    'agent_name',
    'gpu_index',
    'mode',
    'created_at',
    'expires_at',
    'last_heartbeat',
    'metadata',
  ],
  worker_pools: [
    'pool_id',
    'agent_name',
    'model_id',
    'adapter',
    'desired_workers',
    'spawned_workers',
    'started_at',
    'last_heartbeat',
    'status',
    'hold_seconds',
    'metadata',
  ],
  orchestrator_jobs: [
    'job_id',
    'type',
    'payload',
    'status',
    'owner_pool',
    'attempts',
    'created_at',
    'updated_at',
    'last_error',
  ],
  orchestrator_audit: ['id', 'ts', 'event_type', 'details'],
};

interface Column {
  readonly name: string;
  readonly type: string;
  readonly collation: string | null;
}

const columnsOf = (table: string): Promise<Column[]> =>
  sql.query<Column>(
    `SELECT column_name AS name, column_type AS type, collation_name AS collation
       FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?`,
    [table],
  );

test('the tables have their columns; names are compared byte by byte, times are to the microsecond', async () => {
  for (const [table, wanted] of Object.entries(TABLES)) {
    const columns = await columnsOf(table);
    const names = columns.map(({ name }) => name);
    assert.deepEqual(
      wanted.filter((name) => !names.includes(name)),
      [],
      table,
    );
    for (const { name, type, collation } of columns) {
      if (type.startsWith('timestamp')) assert.equal(type, 'timestamp(6)', `${table}.${name}`);
      if (collation !== null) assert.match(collation, /^utf8mb4_.*nopad_bin$/, `${table}.${name}`);
    }
    const indexes = await sql.query<{ name: string }>(
      'SELECT DISTINCT index_name AS name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ?',
      [table],
    );
    assert.ok(
      indexes.some(({ name }) => name === 'PRIMARY'),
      `${table} has a key`,
    );
  }
  const [zone] = await sql.query<{ zone: string }>('SELECT @@session.time_zone AS zone');
  assert.equal(zone?.zone, '+00:00');
});

test('migrations are numbered, and a second run finds nothing to do', async () => {
  const { from, to } = await migrate(sql);
  assert.ok(from === to && to > 1);
  const [row] = await sql.query<{ version: number }>('SELECT version FROM orchestrator_schema');
  assert.equal(row?.version, to);
});
