import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import { MIGRATIONS } from './schema.ts';
import { connector, type Sql } from './sql.ts';
import { bringUp } from './tables.ts';

/** The version of the tables that have no column `root_id`. */
const WITHOUT_ROOTS = MIGRATIONS.findIndex((step) => step.some((text) => text.includes('root_id')));

let server: TestServer;
let sql: Sql;
before(async () => {
  server = await testMariaDb();
  sql = await connector(await server.database())();
});
after(async () => {
  await sql.close();
  await server.stop();
});

const JOBS: readonly (readonly [uid: string, ask: object])[] = [
  ['alone', { ancestors: undefined }],
  ['below', { ancestors: ['top', 'middle'] }],
  ['telling', { payload: 'of "ancestors":["nobody"]' }],
];

test('jobs of older tables get the topmost job above them, and keep the instant of their last change', async () => {
  for (const step of MIGRATIONS.slice(0, WITHOUT_ROOTS))
    for (const statement of step) await sql.run(statement);
  await sql.run(
    'CREATE TABLE orchestrator_schema (id TINYINT NOT NULL PRIMARY KEY, version INT UNSIGNED NOT NULL) ENGINE=InnoDB',
  );
  await sql.run('INSERT INTO orchestrator_schema VALUES (1, ?)', [WITHOUT_ROOTS]);
  for (const [at, [uid, ask]] of JOBS.entries())
    await sql.run(
      `INSERT INTO orchestrator_jobs (uid, job_id, tenant, n, seq, type, payload, status, is_terminal, principal,
        caller_chose_id, updated_at, ask, job)
        VALUES (?, ?, 'default', ?, 1, 't', 'null', 'done', 1, 'p', 0, '2020-01-01 00:00:00', ?, '{}')`,
      [uid, uid, at, JSON.stringify(ask)],
    );
  await bringUp(sql);
  const rows = await sql.query<{ uid: string; root: string | null; year: number }>(
    'SELECT uid, root_id AS root, YEAR(updated_at) AS year FROM orchestrator_jobs ORDER BY n',
  );
  assert.deepEqual(
    rows.map(({ uid, root, year }) => [uid, root, year]),
    [
      ['alone', null, 2020],
      ['below', 'top', 2020],
      ['telling', null, 2020],
    ],
  );
  const plan = await sql.query<{ key: string | null }>(
    "EXPLAIN SELECT uid FROM orchestrator_jobs WHERE root_id = 'top' ORDER BY n",
  );
  assert.equal(plan[0]?.key, 'by_root');
});
