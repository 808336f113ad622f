/** Statements on a connection that keeps autocommit off from one transaction to the next. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import { connector, type Sql, transaction } from './sql.ts';

let server: TestServer;
let sql: Sql;
let other: Sql;
before(async () => {
  server = await testMariaDb();
  const url = await server.database();
  sql = await connector(url)();
  other = await connector(url)();
  await sql.run('CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB');
});
after(async () => {
  for (const line of [sql, other]) await line.close();
  await server.stop();
});

const put = (id: number): Promise<unknown> => sql.run('INSERT INTO t VALUES (?)', [id]);
const seenByOther = async (): Promise<number[]> =>
  (await other.query<{ id: number }>('SELECT id FROM t ORDER BY id')).map(({ id }) => id);

test('a statement after a transaction is committed by itself, also where it was sent behind the COMMIT', async () => {
  await transaction(sql, () => put(1));
  await put(2);
  assert.deepEqual(await seenByOther(), [1, 2]);
  await sql.begin();
  await put(3);
  const committed = sql.commit();
  const behind = [put(4), put(5)];
  await Promise.all([committed, ...behind]);
  assert.deepEqual(await seenByOther(), [1, 2, 3, 4, 5]);
});

test('a transaction that follows another one, or statements, is one: nothing of it stays after a rollback', async () => {
  await sql.run('DELETE FROM t');
  await transaction(sql, () => put(1));
  for (const first of [10, 20]) {
    const failed = transaction(sql, async () => {
      await put(first);
      await put(first + 1);
      assert.deepEqual(await seenByOther(), [1]);
      await put(1);
    });
    await assert.rejects(failed, { errno: 1062 });
    assert.deepEqual(await seenByOther(), [1]);
  }
  const begun = [put(2), sql.begin()];
  await Promise.all(begun);
  await put(3);
  assert.deepEqual(await seenByOther(), [1, 2]);
  await sql.rollback();
  assert.deepEqual(await seenByOther(), [1, 2]);
});
