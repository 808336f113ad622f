/** Statements that are sent before the fence is answered must not be committed where the fence does not hold. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import type { Change } from '../../model/records.ts';
import { type Batch, commitBatch } from './commit.ts';
import { connector, type Sql } from './sql.ts';
import { migrate } from './tables.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const brain = (owner: string): Change => ({
  kind: 'brain',
  id: 'brain',
  cause: 'open',
  after: { v: 1, owner, epoch: 0, attemptFloor: 0 },
});

const batchAfter = (after: number, ...owners: string[]): Batch => ({
  changes: owners.map(brain),
  charges: [],
  after,
  now: 1,
});

const trail = (sql: Sql): Promise<{ id: number }[]> =>
  sql.query('SELECT id FROM orchestrator_audit ORDER BY id');

test('[NEWS-7] rows behind a fence that does not hold are gone, also where they collide with what is there', async () => {
  const sql = await connector(await server.database())();
  await migrate(sql);
  assert.equal(await commitBatch(sql, batchAfter(0, 'a', 'b'), 0), true);
  assert.equal(await commitBatch(sql, batchAfter(2, 'c'), 7), false, 'the epoch of another one');
  assert.equal(await commitBatch(sql, batchAfter(0, 'd', 'e', 'f'), 0), false, 'the same sequences again');
  assert.deepEqual(await trail(sql), [{ id: 1 }, { id: 2 }]);
  assert.equal(await commitBatch(sql, batchAfter(2, 'g'), 0), true);
  assert.deepEqual(await trail(sql), [{ id: 1 }, { id: 2 }, { id: 3 }]);
  await sql.close();
});

test('what was sent behind a deadlock is rolled back with it', async () => {
  const url = await server.database();
  const sql = await connector(url)();
  const other = await connector(url)();
  const look = await connector(url)();
  await sql.run('CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB');
  await sql.batch(
    'INSERT INTO t VALUES (?, 0)',
    Array.from({ length: 20 }, (_, id) => [id]),
  );
  await sql.begin();
  await sql.run('UPDATE t SET v = 1 WHERE id = 0');
  await other.begin();
  // The one that has changed less is given up.
  await other.run('UPDATE t SET v = 2 WHERE id > 0');
  const blocked = sql.run('UPDATE t SET v = 1 WHERE id = 1');
  const behind = sql.run('INSERT INTO t VALUES (100, 1)');
  await Promise.all([
    assert.rejects(blocked, { errno: 1213 }),
    other.run('UPDATE t SET v = 2 WHERE id = 0').then(() => other.commit()),
    behind,
  ]);
  await sql.rollback();
  assert.deepEqual(await look.query('SELECT id FROM t WHERE id = 100 OR v = 1'), []);
  for (const line of [sql, other, look]) await line.close();
});

test('texts of any script are written as they are', async () => {
  const sql = await connector(await server.database())();
  await migrate(sql);
  const texts = ['', 'plain', 'Grüße, 世界, 🙂', "quote ' and \\ backslash", '\u0000'];
  const asks = texts.map((text, at): Change => {
    const id = `j${at}`;
    const spec = { agent: text, type: 't', priority: 'batch', score: 0, weight: 1, max_tries: 3 } as const;
    const payload = JSON.stringify(text);
    const ask = {
      v: 2,
      id,
      tenant: 'default',
      n: at + 1,
      createdAt: 1,
      submittedBy: text,
      spec,
      payload,
    } as const;
    const none = { modelRef: undefined, contextTokens: undefined, tokens: undefined, ancestors: undefined };
    return {
      kind: 'ask',
      id,
      cause: 'submit',
      after: { ...ask, ...none, payloadBytes: 1, hash: undefined, correlationId: undefined },
    };
  });
  assert.equal(await commitBatch(sql, { changes: asks, charges: [], after: 0, now: 1 }, 0), true);
  const jobs = await sql.query<{ payload: string; ask: string }>(
    'SELECT payload, ask FROM orchestrator_jobs ORDER BY n',
  );
  const audit = await sql.query<{ details: string }>('SELECT details FROM orchestrator_audit ORDER BY id');
  const agentIn = (text: string): string => (JSON.parse(text) as { spec: { agent: string } }).spec.agent;
  assert.deepEqual(
    jobs.map(({ payload }) => JSON.parse(payload)),
    texts,
  );
  assert.deepEqual(
    jobs.map(({ ask }) => agentIn(ask)),
    texts,
  );
  assert.deepEqual(
    audit.map(({ details }) => agentIn(JSON.stringify((JSON.parse(details) as { after: unknown }).after))),
    texts,
  );
  await sql.close();
});
