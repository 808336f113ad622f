/** MariaDB goes wrong under load in every way it can: nothing is lost, nothing is done twice, nothing is written twice. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';
import { type Disturbed, type Progress, underLoad } from './disturbed.ts';
import { scratchFolder } from './folders.ts';
import { ask } from './tables.ts';
import { watchedConnect } from './watched-connect.ts';
import type { Around } from './watched-disk.ts';

const scratch = scratchFolder('orchd-disturbed-');
let server: OwnServer;
before(async () => {
  server = await ownMariaDb(scratch);
});
after(async () => {
  await server.stop();
  fs.rmSync(scratch, { recursive: true, force: true });
});

/** A load that makes no progress fails its test after this. */
const PATIENT = { timeout: 120_000 };
/** Jobs that must come through between one blow and the next. */
const BETWEEN = 10;

async function undisturbedBy(name: string, options: Pick<Disturbed, 'url' | 'connect' | 'disturb'>) {
  const { problems, jobs } = await underLoad({ root: join(scratch, name), ...options });
  console.log(`# ${name}: ${jobs} jobs`);
  assert.deepEqual(problems, []);
}

test(
  'a server that is killed under load and comes back has lost nothing and doubled nothing',
  PATIENT,
  async () => {
    const url = await server.database();
    await undisturbedBy('killed server', {
      url,
      connect: connector(url),
      disturb: async (progress) => {
        for (let round = 0; round < 6; round++) {
          await progress.more(BETWEEN);
          await server.kill('SIGKILL');
          await server.start();
        }
        await progress.more(BETWEEN);
      },
    });
  },
);

test('connections that are killed under load cost nothing but their time', PATIENT, async () => {
  const url = await server.database();
  const lines =
    'SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()';
  let killed = 0;
  const killAll = async (sql: Sql): Promise<void> => {
    for (const { id } of await sql.query<{ id: number }>(lines)) {
      // A connection may have closed by itself before the KILL.
      await sql.run(`KILL ${id}`).then(
        () => killed++,
        () => undefined,
      );
    }
  };
  await undisturbedBy('killed connections', {
    url,
    connect: connector(url),
    disturb: (progress) =>
      ask(url, async (sql) => {
        for (let round = 0; round < 25; round++) {
          await killAll(sql);
          await progress.more(BETWEEN);
        }
      }),
  });
  assert.ok(killed >= 25, `${killed} connections`);
});

/** Counts the errors that the brain sees, by their number. */
function counting(counts: Map<number, number>): Around {
  return async (_, run) => {
    try {
      return await run();
    } catch (error) {
      const { errno = 0 } = error as { errno?: number };
      counts.set(errno, (counts.get(errno) ?? 0) + 1);
      throw error;
    }
  };
}

const DEADLOCK = 1213;
const LOCK_WAIT = 1205;

test(
  'transactions of others that take the rows in the opposite order only delay a commit',
  PATIENT,
  async () => {
    const url = await server.database();
    const counts = new Map<number, number>();
    await undisturbedBy('deadlocks', {
      url,
      connect: watchedConnect(url, counting(counts)),
      disturb: (progress) =>
        ask(url, (sql) => crossUntil(sql, progress, () => (counts.get(DEADLOCK) ?? 0) >= 5)),
    });
  },
);

/** Jobs first, then the fence: commits do it the other way round. */
async function crossUntil(sql: Sql, progress: Progress, isEnough: () => boolean): Promise<void> {
  await sql.run('CREATE TABLE weight (id INT NOT NULL) ENGINE=InnoDB');
  const rows = Array.from({ length: 2000 }, (_, id) => [id]);
  while (!isEnough()) {
    await sql.begin();
    // A heavy transaction is not the one that is given up.
    await sql.batch('INSERT INTO weight (id) VALUES (?)', rows);
    try {
      await sql.query('SELECT uid FROM orchestrator_jobs ORDER BY uid DESC FOR UPDATE');
      await sql.query('SELECT id FROM orchestrator_epoch FOR UPDATE');
    } catch (error) {
      assert.equal((error as { errno?: number }).errno, DEADLOCK);
    }
    await sql.rollback();
    await progress.more(1);
  }
}

test('a lock that is held for longer than a commit waits only delays it', PATIENT, async () => {
  const url = await server.database();
  const counts = new Map<number, number>();
  const connect = watchedConnect(url, counting(counts));
  const impatient = async (): Promise<Sql> => {
    const sql = await connect();
    await sql.run('SET SESSION innodb_lock_wait_timeout = 1');
    return sql;
  };
  await undisturbedBy('lock waits', {
    url,
    connect: impatient,
    disturb: (progress) =>
      ask(url, async (sql) => {
        await progress.more(BETWEEN);
        await sql.begin();
        await sql.query('SELECT id FROM orchestrator_epoch FOR UPDATE');
        while ((counts.get(LOCK_WAIT) ?? 0) < 2) await sql.query('SELECT 1');
        await sql.rollback();
        await progress.more(BETWEEN);
      }),
  });
});
