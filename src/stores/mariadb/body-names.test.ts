/** Bodies name their jobs from version 4 of the tables on: what the step to it does to older tables, and to their leader. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import type { Change } from '../../model/records.ts';
import { commitBatch } from './commit.ts';
import { dropUnnamedBodies } from './retention.ts';
import { MIGRATIONS } from './schema.ts';
import { connector, type Sql } from './sql.ts';
import { migrate } from './tables.ts';

let server: TestServer;
let sql: Sql;
before(async () => {
  server = await testMariaDb();
  sql = await connector(await server.database())();
  await makeVersion3();
});
after(async () => {
  await sql.close();
  await server.stop();
});

const OLD_EPOCH = 5;

async function makeVersion3(): Promise<void> {
  await sql.run(
    'CREATE TABLE orchestrator_schema (id TINYINT NOT NULL PRIMARY KEY, version INT UNSIGNED NOT NULL) ENGINE=InnoDB',
  );
  await sql.run('INSERT INTO orchestrator_schema VALUES (1, 3)');
  for (const step of MIGRATIONS.slice(0, 3)) for (const statement of step) await sql.run(statement);
  await sql.run('UPDATE orchestrator_epoch SET epoch = ?, node = ?, expires_at = NOW(6) + INTERVAL 1 HOUR', [
    OLD_EPOCH,
    'old-leader',
  ]);
  await sql.run(
    `INSERT INTO orchestrator_blobs (created_at, body) VALUES
      (NOW(6) - INTERVAL 1 HOUR, 'payload'), (NOW(6) - INTERVAL 1 HOUR, 'result'), (NOW(6) - INTERVAL 1 HOUR, 'nobody names it')`,
  );
  await sql.run(
    `INSERT INTO orchestrator_jobs (uid, job_id, tenant, n, seq, type, payload, status, is_terminal, principal,
      caller_chose_id, payload_blob, result_blob, ask, job)
      VALUES ('a', 'a', 'default', 1, 1, 't', 'null', 'pending', 0, 'p', 0, 1, NULL, '{}', '{}'),
             ('b', 'b', 'default', 2, 2, 't', 'null', 'done', 1, 'p', 0, NULL, 2, '{}', '{}')`,
  );
}

const change: Change = {
  kind: 'brain',
  id: 'brain',
  cause: 'open',
  after: { v: 1, owner: 'old-leader', epoch: OLD_EPOCH, attemptFloor: 0 },
};

test('bodies of older tables get the names of their jobs, their leader can write no more, and what no job names goes', async () => {
  const batch = { changes: [change], charges: [], after: 0, now: 1 };
  assert.equal(await commitBatch(sql, batch, OLD_EPOCH), true, 'before the step the old leader writes');
  await migrate(sql);
  const named = await sql.query('SELECT id, uid FROM orchestrator_blobs ORDER BY id');
  assert.deepEqual(
    named.map((row) => ({ ...row })),
    [
      { id: 1, uid: 'a' },
      { id: 2, uid: 'b' },
      { id: 3, uid: null },
    ],
  );
  assert.equal(await commitBatch(sql, { ...batch, after: 1 }, OLD_EPOCH), false, 'the fence does not hold');
  const [row] = await sql.query<{ epoch: number; node: string | null }>(
    'SELECT epoch, node FROM orchestrator_epoch',
  );
  assert.ok(row && row.epoch > OLD_EPOCH && row.node === null);
  await dropUnnamedBodies(sql, row.epoch);
  const left = await sql.query<{ id: number }>('SELECT id FROM orchestrator_blobs ORDER BY id');
  assert.deepEqual(
    left.map(({ id }) => id),
    [1, 2],
  );
});
