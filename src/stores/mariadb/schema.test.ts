/** The tables that other programs know, as they find them on a real server. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import { loadDatabase } from '../../../test/golden/maker/database.ts';
import { MIGRATIONS } from './schema.ts';
import { connector, type Sql } from './sql.ts';
import { bringUp, migrate } from './tables.ts';

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

const STAMP = 'timestamp(6)';
const NOW = 'current_timestamp(6)';
const JSON_TEXT = 'longtext';

/** Type, whether NULL is allowed, and the default of a column; no third value where there is no default. */
type Wanted = readonly [type: RegExp | string, nullable: 'NULL' | 'NOT NULL', preset?: string];

const TABLES: Readonly<Record<string, Readonly<Record<string, Wanted>>>> = {
  orchestrator_leases: {
    token: ['varchar(128)', 'NOT NULL'],
    agent_name: ['varchar(255)', 'NOT NULL'],
    gpu_index: [/^int/, 'NULL'],
    mode: ["enum('gpu','cpu')", 'NOT NULL', "'gpu'"],
    created_at: [STAMP, 'NOT NULL', NOW],
    expires_at: [STAMP, 'NULL'],
    last_heartbeat: [STAMP, 'NULL'],
    metadata: [JSON_TEXT, 'NULL'],
    ended_at: [STAMP, 'NULL'],
  },
  worker_pools: {
    pool_id: ['varchar(128)', 'NOT NULL'],
    agent_name: ['varchar(255)', 'NULL'],
    model_id: ['varchar(255)', 'NULL'],
    adapter: ['varchar(255)', 'NULL'],
    desired_workers: [/^int/, 'NOT NULL', '0'],
    spawned_workers: [/^int/, 'NOT NULL', '0'],
    started_at: [STAMP, 'NULL'],
    last_heartbeat: [STAMP, 'NULL'],
    status: ["enum('starting','running','draining','stopped','evicted')", 'NOT NULL', "'starting'"],
    hold_seconds: [/^int/, 'NOT NULL', '600'],
    metadata: [JSON_TEXT, 'NULL'],
  },
  orchestrator_jobs: {
    job_id: ['varchar(128)', 'NOT NULL'],
    type: ['varchar(128)', 'NOT NULL'],
    payload: [JSON_TEXT, 'NOT NULL'],
    status: [
      "enum('pending','claimed','running','done','failed','dead_letter','stale','cancelled','waiting')",
      'NOT NULL',
      "'pending'",
    ],
    owner_pool: ['varchar(128)', 'NULL'],
    attempts: [/^int.* unsigned/, 'NOT NULL', '0'],
    created_at: [STAMP, 'NOT NULL', NOW],
    updated_at: [STAMP, 'NULL'],
    last_error: ['text', 'NULL'],
  },
  orchestrator_audit: {
    id: [/^bigint.* unsigned/, 'NOT NULL'],
    ts: [STAMP, 'NOT NULL', NOW],
    event_type: ['varchar(128)', 'NOT NULL'],
    details: [JSON_TEXT, 'NOT NULL'],
  },
};

interface Column {
  readonly name: string;
  readonly type: string;
  readonly nullable: 'YES' | 'NO';
  readonly preset: string | null;
  readonly extra: string;
  readonly charset: string | null;
  readonly collation: string | null;
}

const columnsOf = async (line: Sql, table: string): Promise<ReadonlyMap<string, Column>> => {
  const rows = await line.query<Column>(
    `SELECT column_name AS name, column_type AS type, is_nullable AS nullable, column_default AS preset,
        LOWER(extra) AS extra, character_set_name AS charset, collation_name AS collation
      FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?`,
    [table],
  );
  return new Map(rows.map((row) => [row.name, row]));
};

/** The columns of every index, in their order. */
async function indexesOf(line: Sql, table: string): Promise<Record<string, string>> {
  const rows = await line.query<{ name: string; columns: string }>(
    `SELECT index_name AS name, GROUP_CONCAT(column_name ORDER BY seq_in_index) AS columns
      FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? GROUP BY index_name`,
    [table],
  );
  return Object.fromEntries(rows.map(({ name, columns }) => [name, columns]));
}

for (const [table, wanted] of Object.entries(TABLES)) {
  test(`[NEWS-1] ${table} has the columns that others know, with their types and defaults`, async () => {
    const columns = await columnsOf(sql, table);
    for (const [name, [type, nullable, preset]] of Object.entries(wanted)) {
      const column = columns.get(name);
      assert.ok(column, `${table}.${name} is there`);
      if (typeof type === 'string') assert.equal(column.type, type, `${table}.${name}`);
      else assert.match(column.type, type, `${table}.${name}`);
      assert.equal(column.nullable === 'YES' ? 'NULL' : 'NOT NULL', nullable, `${table}.${name}`);
      const found = column.preset === null || column.preset === 'NULL' ? undefined : column.preset;
      assert.equal(found?.toLowerCase(), preset, `the default of ${table}.${name}`);
    }
  });
}

test('[NEWS-1] texts are utf8mb4, compared byte by byte and with their spaces; times are to the microsecond', async () => {
  for (const table of Object.keys(TABLES)) {
    for (const { name, type, charset, collation } of (await columnsOf(sql, table)).values()) {
      if (type.startsWith('timestamp')) assert.equal(type, STAMP, `${table}.${name}`);
      if (charset === null) continue;
      assert.deepEqual([charset, collation], ['utf8mb4', 'utf8mb4_nopad_bin'], `${table}.${name}`);
    }
  }
  const put = (id: string) =>
    sql.run('INSERT INTO worker_pools (pool_id, agent_name) VALUES (?, ?)', [id, id]);
  for (const id of ['pool', 'POOL', 'pool ', 'pööl', '🐦']) await put(id);
  const [found] = await sql.query<{ n: number }>(
    "SELECT COUNT(*) AS n FROM worker_pools WHERE pool_id = 'pool'",
  );
  assert.equal(Number(found?.n), 1);
  await sql.run('DELETE FROM worker_pools');
});

test('[NEWS-1] each table has the indexes by which it is searched', async () => {
  assert.deepEqual(await indexesOf(sql, 'orchestrator_leases'), {
    PRIMARY: 'token',
    idx_leases_agent: 'agent_name',
    by_end: 'ended_at',
  });
  assert.deepEqual(await indexesOf(sql, 'worker_pools'), { PRIMARY: 'pool_id' });
  assert.deepEqual(await indexesOf(sql, 'orchestrator_audit'), { PRIMARY: 'id', by_subject: 'subject,id' });
  assert.deepEqual(await indexesOf(sql, 'orchestrator_jobs'), {
    PRIMARY: 'uid',
    by_order: 'tenant,is_terminal,n',
    by_key: 'job_key,n',
    by_session: 'session_id,n',
    by_end: 'is_terminal,ended_ms',
    by_batch: 'batch_id,n',
    by_root: 'root_id,n',
  });
});

test('[NEWS-1] rows get their times from the database, in UTC', async () => {
  const line = await connector(await server.database())();
  try {
    await migrate(line);
    await line.run("INSERT INTO worker_pools (pool_id, started_at) VALUES ('p', CURRENT_TIMESTAMP(6))");
    await line.run("INSERT INTO orchestrator_leases (token, agent_name, record) VALUES ('t', 'a', '{}')");
    await line.run(
      "INSERT INTO orchestrator_audit (id, event_type, details, epoch, at_ms, subject) VALUES (1, 'e', '{}', 1, 1, 's')",
    );
    const times = await line.query<{ text: string; age: number }>(
      `SELECT CAST(at AS CHAR) AS text, ABS(TIMESTAMPDIFF(SECOND, at, UTC_TIMESTAMP(6))) AS age FROM
        (SELECT created_at AS at FROM orchestrator_leases UNION ALL SELECT started_at FROM worker_pools
          UNION ALL SELECT ts FROM orchestrator_audit) AS times`,
    );
    assert.equal(times.length, 3);
    for (const { text, age } of times) {
      assert.match(text, /\.\d{6}$/);
      assert.ok(Number(age) < 600, `${text} is a time of UTC`);
    }
    const [zone] = await line.query<{ zone: string }>('SELECT @@session.time_zone AS zone');
    assert.equal(
      zone?.zone,
      '+00:00',
      'a connection of ours reads and writes them in UTC, whatever the zone of the server',
    );
    const { updated_at: updated } = Object.fromEntries(await columnsOf(line, 'orchestrator_jobs'));
    assert.match(updated?.extra ?? '', /on update current_timestamp\(6\)/);
  } finally {
    await line.close();
  }
});

/** Everything that defines the tables and views of a database, as text. */
async function definitionsOf(line: Sql): Promise<Record<string, string>> {
  const names = await line.query<{ name: string; type: string }>(
    'SELECT table_name AS name, table_type AS type FROM information_schema.tables WHERE table_schema = DATABASE()',
  );
  const all: Record<string, string> = {};
  for (const { name, type } of names) {
    const columns = [...(await columnsOf(line, name)).values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    all[name] = JSON.stringify([type, columns, Object.entries(await indexesOf(line, name)).sort()]);
  }
  return all;
}

for (const version of ['v2', 'v3', 'v4', 'v5', 'v6', 'v7', 'v8']) {
  test(`[NEWS-1] the tables of an older orchd (${version}) come to be like new ones`, async () => {
    const url = await server.database();
    const dump = join(import.meta.dirname, '../../../test/golden', version, 'mariadb.sql');
    await loadDatabase(url, readFileSync(dump, 'utf8'));
    const line = await connector(url)();
    try {
      const { from, to } = await bringUp(line);
      assert.ok(from < to && to === MIGRATIONS.length);
      assert.deepEqual(await definitionsOf(line), await definitionsOf(sql));
    } finally {
      await line.close();
    }
  });
}

test('a job that ran at a pool of consumers before has the name of the pool after a migration, and its times as they were', async () => {
  const line = await connector(await server.database())();
  try {
    await migrate(line);
    const before = MIGRATIONS.findIndex((each) => each.some((line) => line.includes("LIKE 'consumers/%'")));
    await line.run('UPDATE orchestrator_schema SET version = ?', [before]);
    const columns =
      'uid, job_id, tenant, n, seq, type, payload, is_terminal, principal, caller_chose_id, ask, job';
    const put = (id: string, pool: string) =>
      line.run(
        `INSERT INTO orchestrator_jobs (${columns}, owner_pool, updated_at)
          VALUES (?, ?, 'default', 1, 1, 't', 'null', 0, 'a', 0, '{}', '{}', ?, '2026-01-02 03:04:05.000006')`,
        [id, id, pool],
      );
    await put('a', 'consumers/gpu');
    await put('b', 'seat');
    await migrate(line);
    const rows = await line.query<{ pool: string; at: string; status: string }>(
      'SELECT owner_pool AS pool, CAST(updated_at AS CHAR) AS at, status FROM orchestrator_jobs ORDER BY uid',
    );
    const at = '2026-01-02 03:04:05.000006';
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [
        { pool: 'gpu', at, status: 'pending' },
        { pool: 'seat', at, status: 'pending' },
      ],
    );
  } finally {
    await line.close();
  }
});

test('[NEWS-1] migrations are numbered, and a second run finds nothing to do', async () => {
  const { from, to } = await migrate(sql);
  assert.ok(from === to && to > 1);
  const [row] = await sql.query<{ version: number }>('SELECT version FROM orchestrator_schema');
  assert.equal(row?.version, to);
});
