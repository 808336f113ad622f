/** Failures that only this store knows: a server that dies, connections that break, answers that are lost. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type OwnServer, ownMariaDb } from '../../../test/fakes/mariadb.ts';
import { createOrchestrator } from '../../app/library.ts';
import type { Term } from '../../core/ports/leadership.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { OrchdError } from '../../model/errors.ts';
import { Opened } from '../conformance/opened.ts';
import { MariaDbStore } from './mariadb.ts';
import { MIGRATIONS } from './schema.ts';
import { type Connect, connector, type Sql } from './sql.ts';
import { migrate } from './tables.ts';

let server: OwnServer;
before(async () => {
  server = await ownMariaDb();
});
after(() => server.stop());

const storeOn = (connect: Connect, unsafe = false): MariaDbStore =>
  new MariaDbStore(realEnv(), { connect, unsafe });

async function ask<T>(url: string, sql: string): Promise<T[]> {
  const line = await connector(url)();
  try {
    return await line.query<T>(sql);
  } finally {
    await line.close();
  }
}

/** A connector whose lines do to a commit what the test wants. */
const tampered =
  (url: string, commit: (really: () => Promise<void>) => Promise<void>): Connect =>
  async (): Promise<Sql> => {
    const sql = await connector(url)();
    const really = sql.commit.bind(sql);
    sql.commit = () => commit(really);
    return sql;
  };

const broken = (): Error => Object.assign(new Error('the line broke'), { fatal: true });

describe('a commit whose answer is lost', () => {
  for (const what of ['it had happened', 'it had not', 'it was under way']) {
    test(`is found done or made again, once (${what})`, async () => {
      const url = await server.database();
      let losses = 0;
      const connect = tampered(url, async (really) => {
        // Not the take-over: from the third commit on, every other answer is lost.
        if (++losses < 3 || losses % 2 === 0) return really();
        const commit = what === 'it had not' ? undefined : really();
        if (what === 'it had happened') await commit;
        commit?.catch(() => undefined);
        throw broken();
      });
      const opened = new Opened(storeOn(connect));
      await opened.open();
      for (let n = 0; n < 10; n++) {
        opened.finish(`j${n}`);
        await opened.settled();
      }
      const { seq } = opened.engine.state;
      await opened.close();
      const [audit] = await ask<{ count: number; last: number }>(
        url,
        'SELECT COUNT(*) AS count, MAX(id) AS last FROM orchestrator_audit',
      );
      assert.deepEqual([audit?.count, audit?.last], [seq, seq], 'one row for every change');
      assert.ok(losses > 10);
    });
  }

  test('is fenced when another one leads by then', async () => {
    const url = await server.database();
    let lose = false;
    const opened = new Opened(
      storeOn(tampered(url, (really) => (lose ? Promise.reject(broken()) : really()))),
    );
    await opened.open();
    lose = true;
    opened.submit('a');
    const other = new Opened(storeOn(connector(url)));
    await other.open();
    await assert.rejects(opened.settled(), { code: 'FENCED' });
    await opened.store.close();
    assert.equal(other.engine.state.jobs.size, 0);
    await other.close();
  });
});

test('a leader whose commit is not answered gives up the lead in time', { timeout: 20_000 }, async (t) => {
  const url = await server.database();
  const real = realEnv();
  let ahead = 0;
  const due: (() => void)[] = [];
  const dueLater = (run: () => void): Cancel => {
    due.push(run);
    return () => undefined;
  };
  const env: Env = {
    ...real,
    clock: {
      now: () => real.clock.now(),
      monotonic: () => real.clock.monotonic() + ahead,
    },
    timers: {
      soon: (run) => real.timers.soon(run),
      after: (ms, run) => (ms < 5000 ? real.timers.after(ms, run) : dueLater(run)),
    },
  };
  let isStalled = false;
  const connect: Connect = async (options) => {
    const sql = await connector(url)(options);
    const really = sql.commit.bind(sql);
    sql.commit = () => (isStalled ? sql.run('DO SLEEP(20)').then(() => undefined) : really());
    return sql;
  };
  const first = new Opened(storeOn(connect));
  await first.open();
  await first.store.close();
  const term: Term = { epoch: 1, holds: () => true, over: new Promise(() => undefined) };
  const opened = new Opened(new MariaDbStore(env, { connect, term }));
  await opened.open();
  t.after(() => opened.store.close());
  isStalled = true;
  opened.finish('j');
  while (due.length === 0) await new Promise((resolve) => setImmediate(resolve));
  ahead = 15_000;
  for (const run of due) run();
  while (!opened.failure) await new Promise((resolve) => setImmediate(resolve));
  assert.equal((opened.failure as OrchdError).code, 'FENCED');
  await opened.store.close();
});

test('a server that is killed and comes back loses nothing that was acknowledged', async (t) => {
  const url = await server.database();
  const config = JSON.stringify({ store: 'mariadb', mariadb: { url } });
  const runs: string[] = [];
  const work = (_: never, { jobId }: { jobId: string }): string => {
    runs.push(jobId);
    return jobId;
  };
  const begin = () => createOrchestrator({ config, backends: [{ name: 'b', slots: 4, types: { work } }] });
  let orchestrator = await begin();
  t.after(() => orchestrator.stop());
  const told: string[] = [];
  const submit = async (job_id: string): Promise<void> => {
    try {
      await orchestrator.submit({ type: 'work', job_id });
      told.push(job_id);
    } catch (error) {
      // Ids of their own make it safe to ask again.
      assert.equal((error as OrchdError).code, 'STORE_BUSY');
      await new Promise((resolve) => setTimeout(resolve, 10));
      await submit(job_id);
    }
  };
  const clients = Array.from({ length: 4 }, async (_, client) => {
    for (let n = 0; n < 15; n++) await submit(`c${client}-${n}`);
  });
  await server.kill('SIGKILL');
  await server.start();
  await Promise.all(clients);
  for (const id of told) assert.equal((await orchestrator.wait(id)).state, 'succeeded');
  await orchestrator.stop();
  orchestrator = await begin();
  for (const id of told) assert.equal((await orchestrator.get(id)).result, id);
  await orchestrator.stop();
  assert.deepEqual(runs.toSorted(), [...new Set(told)].sort(), 'each ran once');
});

test('a server that is read-only for a while is waited for, and a store that is opened meanwhile may be opened again', async () => {
  const admin = await server.database();
  // An administrator may write to a read-only server.
  await ask(admin, "CREATE USER app@'%'");
  await ask(admin, "GRANT ALL ON *.* TO app@'%'");
  await ask(admin, "REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM app@'%'");
  const url = new URL(admin);
  url.username = 'app';
  const refused = Promise.withResolvers<void>();
  const connect: Connect = async (options) => {
    const sql = await connector(url.href)(options);
    const really = sql.rollback.bind(sql);
    sql.rollback = () => really().then(refused.resolve);
    return sql;
  };
  const opened = new Opened(storeOn(connect));
  await opened.open();
  opened.finish('before');
  await opened.settled();
  await ask(admin, 'SET GLOBAL read_only = 1');
  try {
    opened.finish('meanwhile');
    await refused.promise;
    await assert.rejects(opened.store.putBlob('text'), { code: 'STORE_BUSY', retriable: true });
    const other = new Opened(storeOn(connector(url.href)));
    await assert.rejects(other.open(), { code: 'STORE_FAILED', retriable: true, message: /read-only/ });
  } finally {
    await ask(admin, 'SET GLOBAL read_only = 0');
  }
  await opened.settled();
  assert.equal(opened.failure, undefined);
  await opened.close();
});

test('a restored dump is said to be a copy by a program that opens it once', async () => {
  const url = await server.database();
  const config = JSON.stringify({ store: 'mariadb', mariadb: { url } });
  const ownerAfter = async (isCopy: boolean): Promise<string> => {
    await (await createOrchestrator({ config, backends: [], isCopy })).stop();
    const [row] = await ask<{ brain: string }>(url, 'SELECT brain FROM orchestrator_epoch');
    return (JSON.parse(row!.brain) as { owner: string }).owner;
  };
  const original = await ownerAfter(false);
  assert.equal(await ownerAfter(false), original);
  assert.notEqual(await ownerAfter(true), original);
});

test('a line that is killed by the server is made anew, for writes and for reads', async () => {
  const url = await server.database();
  const opened = new Opened(storeOn(connector(url)));
  await opened.open();
  opened.finish('a');
  await opened.handedOver();
  await opened.store.history.count();
  for (let round = 0; round < 3; round++) {
    const name = new URL(url).pathname.slice(1);
    const lines = await ask<{ id: number }>(
      url,
      `SELECT id FROM information_schema.processlist WHERE db = '${name}' AND id <> CONNECTION_ID()`,
    );
    assert.ok(lines.length >= 2);
    for (const { id } of lines) await ask(url, `KILL ${id}`);
    opened.finish(`after${round}`);
    await opened.handedOver();
    assert.equal((await opened.store.history.get('a'))?.job.state, 'succeeded');
  }
  await opened.close();
});

describe('opening is refused in a sentence', () => {
  test('where the server would answer before it has written, unless that is wanted', async () => {
    const url = await server.database();
    await ask(url, 'SET GLOBAL innodb_flush_log_at_trx_commit = 2');
    try {
      const careful = new Opened(storeOn(connector(url)));
      await assert.rejects(careful.open(), {
        code: 'CONFIG_INVALID',
        message: /innodb_flush_log_at_trx_commit is 2.*mariadb\.unsafe/,
      });
      const bold = new Opened(storeOn(connector(url), true));
      await bold.open();
      await bold.close();
    } finally {
      await ask(url, 'SET GLOBAL innodb_flush_log_at_trx_commit = 1');
    }
  });

  test('where nobody answers, and where the tables are newer', async () => {
    const nowhere = new Opened(storeOn(connector('mariadb://u:secret@localhost/db?socket=%2Fnowhere')));
    await assert.rejects(nowhere.open(), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'STORE_FAILED');
      return !error.message.includes('secret');
    });
    const url = await server.database();
    const first = new Opened(storeOn(connector(url)));
    await first.open();
    await first.close();
    await ask(url, 'UPDATE orchestrator_schema SET version = 1000');
    await assert.rejects(new Opened(storeOn(connector(url))).open(), { code: 'STORE_TOO_NEW' });
  });
});

test('tables that were left half made are finished by the next one, wherever it stopped', async () => {
  const statements = MIGRATIONS.flat().length + 4;
  for (let stopAt = 1; stopAt < statements; stopAt++) {
    const url = await server.database();
    const sql = await connector(url)();
    const run = sql.run.bind(sql);
    let count = 0;
    sql.run = async (...args) => {
      if (++count === stopAt) throw broken();
      return run(...args);
    };
    await assert.rejects(migrate(sql), { message: 'the line broke' }, `at ${stopAt}`);
    await sql.close();
    const opened = new Opened(storeOn(connector(url)));
    await opened.open();
    opened.finish('a');
    await opened.handedOver();
    await opened.close();
  }
});

test('a purge of one that no longer leads removes nothing', async () => {
  const url = await server.database();
  const first = new Opened(storeOn(connector(url)));
  await first.open();
  first.finish('a');
  await first.handedOver();
  const second = new Opened(storeOn(connector(url)));
  await second.open();
  const later = first.now + 1;
  await assert.rejects(first.store.purge(later, 10, later), { code: 'FENCED' });
  assert.equal(await second.store.history.count(), 1);
  await second.store.purge(later, 10, later);
  assert.equal(await second.store.history.count(), 0);
  await first.store.close();
  await second.close();
});

test('two that open at once: both get an epoch, and only the later one writes', async () => {
  const url = await server.database();
  const both = [new Opened(storeOn(connector(url))), new Opened(storeOn(connector(url)))];
  await Promise.all(both.map((opened) => opened.open()));
  for (const [n, opened] of both.entries()) opened.submit(`j${n}`);
  const ends = await Promise.allSettled(both.map((opened) => opened.settled()));
  assert.deepEqual(ends.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  for (const { store } of both) await store.close();
  const third = new Opened(storeOn(connector(url)));
  await third.open();
  assert.equal(third.engine.state.jobs.size, 1);
  await third.close();
});
