/** Retention removes bodies that no job names and old audit rows, leaves the rest, and works only for the leader. */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import type { BlobOwner } from '../../core/ports/store.ts';
import { realEnv } from '../../kit/env/real.ts';
import { scoped } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { NOW, Opened } from '../conformance/opened.ts';
import { rowOf } from './blobs.ts';
import { MariaDbStore } from './mariadb.ts';
import { dropEndedLeases, dropUnnamedBodies, trimAudit } from './retention.ts';
import { connector, type Sql } from './sql.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

interface Stage {
  readonly sql: Sql;
  readonly opened: Opened;
  readonly epoch: number;
  ids(table: 'blobs' | 'audit'): Promise<number[]>;
}

async function onStage(run: (stage: Stage) => Promise<void>): Promise<void> {
  const connect = connector(await server.database());
  const opened = new Opened(new MariaDbStore(realEnv(), { connect }));
  await opened.open();
  const sql = await connect();
  const [row] = await sql.query<{ epoch: number }>('SELECT epoch FROM orchestrator_epoch');
  const ids = async (table: string): Promise<number[]> =>
    (await sql.query<{ id: number }>(`SELECT id FROM orchestrator_${table} ORDER BY id`)).map(({ id }) => id);
  try {
    await run({ sql, opened, epoch: row?.epoch ?? 0, ids });
  } finally {
    await opened.close();
    await sql.close();
  }
}

const age = (sql: Sql, minutes: number) =>
  sql.run('UPDATE orchestrator_blobs SET created_at = CURRENT_TIMESTAMP(6) - INTERVAL ? MINUTE', [minutes]);

describe('bodies', () => {
  test('go when no job names them and they are older than ten minutes', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      const { store } = opened;
      const payload = await store.putBlob('"payload"');
      const result = await store.putBlob('"result"');
      await store.putBlob('"nobody names it"');
      opened.submit('waits', { type: 'other', payload });
      opened.finish('small');
      const { token } = opened.submit('runs');
      opened.step({ type: 'outcome', token, outcome: { ok: true, result } });
      await opened.handedOver();
      await age(sql, 9);
      assert.equal(await dropUnnamedBodies(sql, epoch), 3);
      assert.equal((await ids('blobs')).length, 3, 'they are young');
      await age(sql, 11);
      await store.putBlob('"young"');
      let from = 0;
      do from = await dropUnnamedBodies(sql, epoch, from);
      while (from > 0);
      assert.deepEqual(await ids('blobs'), [rowOf(payload), rowOf(result), 4]);
      assert.equal(String(await store.readBlob(payload)), '"payload"');
    }));

  test('of a session stay while it is in memory or in the archive, and go with it', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      const { store, engine } = opened;
      opened.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 1 });
      const owned = await store.putBlob('"a turn"', { owner: { session: 'default~s' } });
      const sweep = async (): Promise<number[]> => {
        await opened.settled();
        await age(sql, 11);
        await dropUnnamedBodies(sql, epoch);
        return ids('blobs');
      };
      assert.deepEqual(await sweep(), [rowOf(owned)], 'in memory');
      const record = engine.state.sessionOf('default', 's') as SessionRecord;
      await store.sessions.put([record]);
      opened.step({ type: 'archive-sessions', records: [record] });
      assert.deepEqual(await sweep(), [rowOf(owned)], 'in the archive');
      await store.sessions.drop([record]);
      assert.deepEqual(await sweep(), []);
    }));

  test('of a waiting job stay until it goes on with another one', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      const { store } = opened;
      const wait = async (token: string, text: string) => {
        const state = await store.putBlob(text);
        opened.step({
          type: 'outcome',
          token,
          outcome: { ok: 'waits', state, children: [], needs: 'all', forMs: 1 },
        });
        return rowOf(state);
      };
      opened.finish('before');
      const first = await wait(opened.submit('a').token, '"first"');
      await opened.handedOver();
      await age(sql, 11);
      await dropUnnamedBodies(sql, epoch);
      assert.deepEqual(await ids('blobs'), [first]);
      opened.now += 1;
      opened.step({ type: 'tick' });
      const second = await wait(opened.job('a').token, '"second"');
      await opened.handedOver();
      await age(sql, 11);
      await dropUnnamedBodies(sql, epoch);
      assert.deepEqual(await ids('blobs'), [second]);
    }));

  test('that are parts of others stay as long as the job or the session that owns them', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      const { store } = opened;
      opened.finish('run');
      opened.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 1 });
      await opened.handedOver();
      const owned = async (owner: BlobOwner) => rowOf(await store.putBlob('"part"', { owner }));
      const ofRun = await owned({ job: 'run' });
      const ofSession = await owned({ session: scoped('default', 's') });
      await owned({ job: 'gone' });
      await owned({ session: scoped('default', 'gone') });
      await age(sql, 11);
      await dropUnnamedBodies(sql, epoch);
      assert.deepEqual(await ids('blobs'), [ofRun, ofSession]);
      opened.step({ type: 'forget-session', tenant: 'default', id: 's', by: 'me' });
      await opened.handedOver();
      await dropUnnamedBodies(sql, epoch);
      assert.deepEqual(await ids('blobs'), [ofRun]);
    }));

  test('that have an owner outlive the job that names them: what it returned may be a part of what is said', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      const { store } = opened;
      opened.step({ type: 'budget', tenant: 'default', id: 's', tokenBudget: 1 });
      const result = await store.putBlob('"result"', { owner: { session: scoped('default', 's') } });
      opened.step({ type: 'outcome', token: opened.submit('a').token, outcome: { ok: true, result } });
      const alone = await store.putBlob('"alone"');
      opened.step({ type: 'outcome', token: opened.submit('b').token, outcome: { ok: true, result: alone } });
      await opened.handedOver();
      await store.purge(opened.now + 1, 10, opened.now);
      await age(sql, 11);
      await dropUnnamedBodies(sql, epoch);
      assert.deepEqual([await ids('blobs'), await store.history.get('a')], [[rowOf(result)], undefined]);
    }));

  test('of a session that is gone stay while a job of it is kept: the payload may be composed of them', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      const { store } = opened;
      const part = await store.putBlob('"part"', { owner: { session: scoped('default', 's') } });
      const other = await store.putBlob('"part"', { owner: { session: scoped('other', 's') } });
      opened.submit('a', { type: 'other', session_id: 's' });
      opened.step({ type: 'forget-session', tenant: 'default', id: 's', by: 'me' });
      await opened.handedOver();
      await age(sql, 11);
      await dropUnnamedBodies(sql, epoch);
      assert.deepEqual(await ids('blobs'), [rowOf(part)], `that of another tenant, ${rowOf(other)}, goes`);
      await sql.run("DELETE FROM orchestrator_jobs WHERE uid = 'a'");
      await dropUnnamedBodies(sql, epoch);
      assert.deepEqual(await ids('blobs'), []);
    }));

  test('go in pieces: a look has its bound, and says where the next begins', () =>
    onStage(async ({ sql, epoch, ids }) => {
      await sql.batch(
        'INSERT INTO orchestrator_blobs (body) VALUES (?)',
        Array.from({ length: 6000 }, (_, n) => [`${n}`]),
      );
      await age(sql, 11);
      assert.equal(await dropUnnamedBodies(sql, epoch), 5000);
      assert.equal((await ids('blobs')).length, 1000);
      assert.equal(await dropUnnamedBodies(sql, epoch, 5000), 6000);
      assert.equal(await dropUnnamedBodies(sql, epoch, 6000), 0);
      assert.deepEqual(await ids('blobs'), []);
    }));
});

describe('the trail', () => {
  test('loses what is older than an instant, and no more than asked for', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      for (let n = 0; n < 30; n++) {
        opened.now = NOW + n;
        opened.submit(`j${n}`, { type: 'other' });
        await opened.settled();
      }
      const all = await ids('audit');
      assert.equal(all.length, 30);
      const limits = { before: NOW + 20, bytes: 2 ** 40 };
      assert.equal(await trimAudit(sql, epoch, limits, 7), 7);
      assert.deepEqual(await ids('audit'), all.slice(7));
      assert.equal(await trimAudit(sql, epoch, limits, 1000), 13);
      assert.deepEqual(await ids('audit'), all.slice(20));
      assert.equal(await trimAudit(sql, epoch, limits, 1000), 0);
    }));

  test('is as old as brain time says: a wall clock that is ahead removes nothing', async () => {
    const connect = connector(await server.database());
    const clock = { now: () => NOW + 30 * 24 * 3_600_000, monotonic: () => 0, isMadeUp: true as const };
    const opened = new Opened(new MariaDbStore({ ...realEnv(), clock }, { connect, auditMs: 1000 }));
    await opened.open();
    opened.submit('a', { type: 'other' });
    await opened.settled();
    const sql = await connect();
    const count = async (): Promise<number> => (await sql.query('SELECT id FROM orchestrator_audit')).length;
    const before = await count();
    await opened.store.purge(0, 10, NOW + 1000);
    assert.equal(await count(), before);
    await opened.store.purge(0, 10, NOW + 1001);
    assert.equal(await count(), 0);
    await opened.close();
    await sql.close();
  });

  test('loses its oldest rows when it takes more than it may, and then rests', () =>
    onStage(async ({ sql, opened, epoch, ids }) => {
      for (let n = 0; n < 3000; n++) opened.submit(`j${String(n).padStart(4, '0')}`, { type: 'other' });
      await opened.settled();
      const all = await ids('audit');
      const [row] = await sql.query<{ bytes: string }>(
        'SELECT SUM(OCTET_LENGTH(details)) AS bytes FROM orchestrator_audit',
      );
      const bytes = Number(row?.bytes);
      const limits = { before: 0, bytes };
      const removed = await trimAudit(sql, epoch, limits, 100_000);
      assert.ok(removed > 0 && removed < 2000, `${removed} of ${all.length}`);
      assert.deepEqual(await ids('audit'), all.slice(removed), 'the oldest');
      assert.ok((await trimAudit(sql, epoch, limits, 100_000)) <= 2, 'what is left may stay');
      assert.equal(await trimAudit(sql, epoch, { before: 0, bytes: 2 ** 40 }, 10), 0);
    }));

  test('keeps a lease that has expired, with the time at which it did, for as long as its other rows', () =>
    onStage(async ({ sql, opened, epoch }) => {
      const request = { token: 'lapses', tenant: 'default', agent: 'a', minMemoryMb: 0, ttlMs: 1000 };
      opened.step({ type: 'lease', request });
      opened.step({ type: 'lease', request: { ...request, token: 'held', ttlMs: 100_000 } });
      await opened.settled();
      opened.step({ type: 'tick' }, opened.now + 1000);
      await opened.settled();
      const rows = (): Promise<unknown[]> =>
        sql.query(`SELECT token, ROUND(UNIX_TIMESTAMP(ended_at) * 1000) AS at
          FROM orchestrator_leases ORDER BY token`);
      const told = (await rows()).map((row) => JSON.stringify(row));
      assert.deepEqual(told, [`{"token":"held","at":null}`, `{"token":"lapses","at":"${opened.now}"}`]);
      assert.equal(await dropEndedLeases(sql, epoch, opened.now, 10), 0);
      assert.equal(await dropEndedLeases(sql, epoch, opened.now + 1, 10), 1);
      assert.equal((await rows()).length, 1);
      await assert.rejects(dropEndedLeases(sql, epoch - 1, opened.now + 1, 10), { code: 'FENCED' });
    }));

  test('that is empty is no matter', () =>
    onStage(async ({ sql, epoch }) => {
      assert.equal(await trimAudit(sql, epoch, { before: NOW, bytes: 0 }, 10), 0);
    }));
});

test('one that no longer leads removes nothing', () =>
  onStage(async ({ sql, opened, epoch, ids }) => {
    await opened.store.putBlob('"x"');
    await age(sql, 11);
    opened.submit('a', { type: 'other' });
    await opened.settled();
    const before = [await ids('blobs'), await ids('audit')];
    await assert.rejects(dropUnnamedBodies(sql, epoch - 1), { code: 'FENCED' });
    await assert.rejects(trimAudit(sql, epoch - 1, { before: NOW + 1, bytes: 0 }, 10), { code: 'FENCED' });
    assert.deepEqual([await ids('blobs'), await ids('audit')], before);
  }));
