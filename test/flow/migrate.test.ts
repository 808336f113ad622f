/** Everything moves from one store to another, whole, whenever the move is cut short. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { realEnv } from '../../src/kit/env/real.ts';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { migrate as migrateTables } from '../../src/stores/mariadb/tables.ts';
import { type MigratableStore, migrateBetween } from '../../src/stores/migration/between.ts';
import { copyFolder } from '../fakes/copy-folder.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { linesOf, orchd } from './cli-process.ts';
import {
  bytesOf,
  fill,
  journal,
  journalOn,
  lead,
  newFolder,
  readAll,
  tables,
  tablesOn,
} from './moving-kit.ts';

let server: TestServer;
const folders: string[] = [];
before(async () => {
  server = await testMariaDb();
});
after(async () => {
  await server.stop();
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});

function folder(): string {
  const made = newFolder();
  folders.push(made);
  return join(made, 'data');
}

interface Report {
  readonly hash: string;
  readonly live: number;
  readonly ended: number;
  readonly bodies: number;
  readonly sessions: number;
  readonly charges: number;
  readonly seq: number;
  readonly epoch: number;
  readonly already: boolean;
}

async function migrated(...words: string[]): Promise<Report> {
  const { code, out, err } = await orchd(['migrate', ...words, '--json']);
  assert.equal(code, 0, err);
  return JSON.parse(out) as Report;
}

async function refused(...words: string[]): Promise<string> {
  const { code, out, err } = await orchd(['migrate', ...words]);
  assert.equal(code, 2, out + err);
  assert.equal(out, '');
  return err;
}

async function filledJournal(
  rounds?: number,
): Promise<{ path: string; all: Map<string, unknown>; seq: number }> {
  const path = folder();
  const opened = await lead(journalOn(path));
  await fill(opened, rounds);
  const all = await readAll(opened);
  const { seq } = opened.engine.state;
  await opened.close();
  return { path, all, seq };
}

async function ask<T>(url: string, sql: string): Promise<T[]> {
  const line = await connector(url)();
  try {
    return await line.query<T>(sql);
  } finally {
    await line.close();
  }
}

test('a journal moves to a database, back, and there again: the same jobs, bodies and records', async () => {
  const { path, all, seq } = await filledJournal();
  const bytes = bytesOf(path);
  const [url, again] = [await server.database(), await server.database()];
  const there = await migrated('--from', `journal:${path}`, '--to', url);
  assert.deepEqual(bytesOf(path), bytes, 'the source is as it was');
  assert.ok(there.live > 30 && there.ended > 60 && there.bodies === 6, JSON.stringify(there));
  assert.equal(there.charges, 4, 'two tries of two jobs');
  assert.equal(there.sessions, 3, 'those in the archive');
  const back = folder();
  const home = await migrated('--from', url, '--to', `journal:${back}`);
  const last = await migrated('--from', `journal:${back}`, '--to', again);
  for (const { hash } of [home, last]) assert.equal(hash, there.hash);
  assert.ok(seq <= there.seq && there.seq < home.seq && home.seq < last.seq);
  assert.ok(there.epoch < home.epoch && home.epoch < last.epoch);
  const { code, out } = await orchd(['doctor', back]);
  assert.equal(code, 0, out);
  for (const store of [journalOn(back), tablesOn(again)]) {
    const opened = await lead(store);
    assert.deepEqual(await readAll(opened), all);
    const { brain } = opened.engine.state;
    assert.equal(brain?.owner, 'the-owner');
    assert.ok(brain.epoch > 1000);
    const highest = Math.max(...[...opened.engine.state.jobs.values()].map((entry) => entry.ask.n));
    assert.ok(opened.submit('after-the-move').ask.n > Math.max(highest, seq));
    assert.ok(opened.engine.state.jobs.get('running-0')?.open, 'what runs is still followed');
    await opened.close();
  }
});

test('a folder that a brain has left by being killed is moved too', async () => {
  const path = folder();
  const opened = await lead(journalOn(path));
  await fill(opened);
  const all = await readAll(opened);
  // A copy of the open folder is what a crash leaves: no tidy end, and the WAL of the index beside it.
  const copy = folder();
  copyFolder(path, copy);
  await opened.close();
  fs.rmSync(join(copy, 'lock'));
  fs.writeFileSync(join(copy, 'lock'), '');
  const url = await server.database();
  await migrateBetween(realEnv(), journal(copy), tables(url), () => undefined);
  const moved = await lead(tablesOn(url));
  assert.deepEqual(await readAll(moved), all);
  await moved.close();
});

test('[NEWS-1] worker pools have their rows after a move, and rows that were left in the target are gone', async () => {
  const path = folder();
  const opened = await lead(journalOn(path));
  const spec = { provisioner: 'external', agent: 'ann', desired: 3, holdMs: 60_000 } as const;
  const none = { model: undefined, adapter: undefined, variant: undefined, metadata: undefined };
  for (const id of ['one', 'two', 'gone'])
    opened.step({ type: 'worker-pool', id, order: { is: 'create', spec: { ...spec, ...none } }, by: 'op' });
  opened.step({ type: 'worker-pool', id: 'two', order: { is: 'heartbeat', spawned: 3 }, by: 'op' });
  opened.step({ type: 'worker-pool', id: 'gone', order: { is: 'evict' }, by: 'op' });
  opened.step({ type: 'delete-worker-pool', id: 'gone' });
  await opened.settled();
  await opened.close();
  const url = await server.database();
  const line = await connector(url)();
  await migrateTables(line);
  await line.run("INSERT INTO worker_pools (pool_id) VALUES ('left')");
  await line.close();
  await migrateBetween(realEnv(), journal(path), tables(url), () => undefined);
  const columns = 'pool_id, agent_name, desired_workers, spawned_workers, status, hold_seconds';
  const rows = await ask<Record<string, unknown>>(
    url,
    `SELECT ${columns} FROM worker_pools ORDER BY pool_id`,
  );
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['one', 'ann', 3, 0, 'starting', 60],
      ['two', 'ann', 3, 3, 'running', 60],
    ],
  );
});

describe('refused in a sentence, with nothing changed', () => {
  test('a source that a brain holds, one that is none, and a place that is none', async () => {
    const path = folder();
    const opened = await lead(journalOn(path));
    const url = await server.database();
    assert.match(
      await refused('--from', `journal:${path}`, '--to', url),
      /a running orchd holds .*stop it.*STORE_LOCKED/,
    );
    await opened.close();
    assert.match(await refused('--from', `journal:${path}-not`, '--to', url), /holds no work of orchd/);
    assert.match(await refused('--from', url, '--to', `journal:${folder()}`), /holds no work of orchd/);
    assert.deepEqual(await ask(url, 'SHOW TABLES'), []);
    const wrong = await refused('--from', 'mysql://u:secret@h/d', '--to', url);
    assert.match(wrong, /a place is/);
    assert.doesNotMatch(wrong, /secret/);
    const down: [url: string, where: string][] = [
      ['mariadb://u:secret@localhost/d?socket=%2Fno', '/no cannot be reached (ENOENT)'],
      ['mariadb://u:secret@127.0.0.1:1/d', '127.0.0.1:1 cannot be reached (ECONNREFUSED)'],
    ];
    for (const [address, where] of down) {
      const nowhere = await refused('--from', `journal:${path}`, '--to', address);
      assert.ok(nowhere.includes(`the database d at ${where} (STORE_FAILED)`), nowhere);
      assert.doesNotMatch(nowhere, /secret|u:/);
    }
    assert.match(await refused('--from', `journal:${path}`), /must be given together/);
  });

  test('a target with work of its own', async () => {
    const { path } = await filledJournal();
    const other = folder();
    const url = await server.database();
    for (const store of [journalOn(other), tablesOn(url)]) {
      const opened = await lead(store, 'somebody');
      opened.finish('theirs');
      await opened.handedOver();
      await opened.close();
    }
    const bytes = bytesOf(other);
    const rows = () => ask(url, 'SELECT uid, updated_at FROM orchestrator_jobs JOIN orchestrator_epoch');
    const before = await rows();
    assert.match(
      await refused('--from', `journal:${path}`, '--to', `journal:${other}`),
      /holds work already/,
    );
    assert.match(await refused('--from', `journal:${path}`, '--to', url), /holds work already/);
    assert.deepEqual(bytesOf(other), bytes);
    assert.deepEqual(await rows(), before);
  });

  test('and the brain that leads on the source goes on', async () => {
    const other = folder();
    await (await lead(journalOn(other), 'somebody')).close();
    const url = await server.database();
    const opened = await lead(tablesOn(url));
    await opened.settled();
    assert.match(await refused('--from', url, '--to', `journal:${other}`), /holds work already/);
    opened.submit('goes-on');
    await opened.close();
  });

  test('a target that another brain is being moved to', async () => {
    const { path } = await filledJournal();
    const url = await server.database();
    await halfMade(journal(path), tables(url));
    const other = folder();
    const opened = await lead(journalOn(other), 'somebody');
    await opened.close();
    assert.match(
      await refused('--from', `journal:${other}`, '--to', url),
      /unfinished move of another brain/,
    );
  });
});

/** A move that broke off after its first piece. */
async function halfMade(from: MigratableStore, to: MigratableStore): Promise<void> {
  const cut = (): never => {
    throw new Error('cut short');
  };
  await assert.rejects(migrateBetween(realEnv(), from, to, cut), { message: 'cut short' });
}

describe('a half-made target', () => {
  test('is refused by a brain and as a source, and named by the doctor', async () => {
    const { path } = await filledJournal();
    const url = await server.database();
    const data = folder();
    await halfMade(journal(path), tables(url));
    await halfMade(journal(path), journal(data));
    for (const store of [tablesOn(url), journalOn(data)]) {
      await assert.rejects(lead(store), { code: 'STORE_UNFINISHED', message: /was not finished/ });
    }
    for (const place of [url, `journal:${data}`]) {
      assert.match(await refused('--from', place, '--to', `journal:${folder()}`), /STORE_UNFINISHED/);
    }
    const { code, out } = await orchd(['doctor', data]);
    assert.equal(code, 1);
    assert.match(out, /a move into this folder was not finished/);
    for (const to of [url, `journal:${data}`]) await migrated('--from', `journal:${path}`, '--to', to);
  });

  test('keeps what the first try has written', async () => {
    const { path } = await filledJournal();
    const url = await server.database();
    const data = folder();
    const written = async () => ({
      rows: await ask(
        url,
        "SELECT uid, created_at FROM orchestrator_jobs WHERE uid LIKE 'done%' ORDER BY uid",
      ),
      file: fs.statSync(join(data, 'blobs', '00000001.blob')).mtimeMs,
    });
    for (const to of [tables(url), journal(data)]) await halfMade(journal(path), to);
    const first = await written();
    assert.ok(first.rows.length > 0);
    for (const to of [url, `journal:${data}`]) await migrated('--from', `journal:${path}`, '--to', to);
    assert.deepEqual(await written(), first);
  });

  test('is made anew where the source has gone on meanwhile', async () => {
    const { path } = await filledJournal();
    const url = await server.database();
    const data = folder();
    for (const to of [tables(url), journal(data)]) await halfMade(journal(path), to);
    const opened = await lead(journalOn(path));
    for (const uid of ['waits-0-0', 'running-0']) opened.step({ type: 'cancel', uid, by: 'test' });
    // The dead job is in the history when it is redriven.
    const known = await opened.store.history.get('dead-0-1');
    opened.step({ type: 'redrive', uid: 'dead-0-1', by: 'test', known });
    await opened.settled();
    const all = await readAll(opened);
    await opened.close();
    for (const to of [url, `journal:${data}`]) await migrated('--from', `journal:${path}`, '--to', to);
    for (const store of [tablesOn(url), journalOn(data)]) {
      const moved = await lead(store);
      assert.deepEqual(await readAll(moved), all);
      await moved.close();
    }
  });

  test('stays marked where it does not hold what was written, and the next try mends it', async () => {
    const { path } = await filledJournal();
    const url = await server.database();
    const spoil = async (): Promise<void> => {
      await ask(
        url,
        "UPDATE orchestrator_jobs SET job = REPLACE(job, 'done', 'gone') WHERE uid = 'done-0-0'",
      );
    };
    let spoilt: Promise<void> | undefined;
    const connect = async () => {
      const sql = await connector(url)();
      const query = sql.query.bind(sql);
      // Before it is read back, which begins with the count of all jobs.
      sql.query = async (text, values) => {
        if (text.includes('COUNT(*)')) spoilt ??= spoil();
        await spoilt;
        return query(text, values);
      };
      return sql;
    };
    const moving = migrateBetween(realEnv(), journal(path), tables(url, connect), () => undefined);
    await assert.rejects(moving, { code: 'STORE_UNFINISHED', message: /does not hold what .*\(hash/ });
    await assert.rejects(lead(tablesOn(url)), { code: 'STORE_UNFINISHED' });
    await migrated('--from', `journal:${path}`, '--to', url);
  });
});

test('a node that is started on the source while it is read stops the move', async () => {
  const { path } = await filledJournal();
  const url = await server.database();
  await migrateBetween(realEnv(), journal(path), tables(url), () => undefined);
  const target = folder();
  let intruder: Promise<void> | undefined;
  const intrude = async (): Promise<void> => {
    const opened = await lead(tablesOn(url));
    await opened.close();
  };
  const connect = async () => {
    const sql = await connector(url)();
    const query = sql.query.bind(sql);
    sql.query = async (text, values) => {
      if (text.includes('orchestrator_blobs')) intruder ??= intrude();
      await intruder;
      return query(text, values);
    };
    return sql;
  };
  const moving = migrateBetween(realEnv(), tables(url, connect), journal(target), () => undefined);
  await assert.rejects(moving, { code: 'FENCED', message: /was started on .* meanwhile/ });
  await assert.rejects(lead(journalOn(target)), { code: 'STORE_UNFINISHED' });
  await migrated('--from', url, '--to', `journal:${target}`);
});

test('a brain that leads on the source can write nothing once it is moved', async () => {
  const url = await server.database();
  const opened = await lead(tablesOn(url));
  opened.submit('before');
  await opened.settled();
  await migrated('--from', url, '--to', `journal:${folder()}`);
  opened.submit('too-late');
  await assert.rejects(opened.settled(), { code: 'FENCED' });
  await opened.store.close();
});

test('counts are shown while it runs, and the same command again finds all done', async () => {
  const { path } = await filledJournal();
  const url = await server.database();
  const words = ['migrate', '--from', `journal:${path}`, '--to', 'mariadb'];
  const env = { ORCHD_MARIADB_URL: url };
  const first = await orchd(words, { env });
  assert.equal(first.code, 0, first.err);
  assert.match(first.err, /copied \d+ of \d+ jobs/);
  assert.match(first.err, /read back \d+ of \d+ jobs/);
  assert.match(first.out, /^Copied the journal .* to the database .*\n\d+ live and \d+ ended jobs/);
  const second = await orchd(words, { env });
  assert.match(second.out, /^Everything in .* is already in/);
  assert.equal(second.code, 0);
});

test('tables are brought to this version, which is said', async () => {
  const url = await server.database();
  const env = { ORCHD_MARIADB_URL: url, ORCHD_STORE: 'mariadb' };
  assert.match((await orchd(['migrate'], { env })).out, /^Created the tables, version \d+\.$/m);
  assert.match((await orchd(['migrate'], { env })).out, /^The tables already have version \d+\.$/m);
  await ask(url, 'UPDATE orchestrator_schema SET version = 0');
  const { out } = await orchd(['migrate', '--json'], { env });
  const { from, to } = JSON.parse(out) as { from: number; to: number };
  assert.ok(from === 0 && to > 0);
  const wrong = await orchd(['migrate']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.err, /the journal has no tables: set store to mariadb in the configuration/);
});

describe('killed at any moment, the same move completes', () => {
  const run = promisify(execFile);
  const main = join(import.meta.dirname, 'moving-main.ts');
  /** Kills before the first piece, where the target is made, and from there to the end; `CRASH_ALL=1` takes every effect. */
  const POINTS =
    process.env['CRASH_ALL'] === '1' ? [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY] : [2, 4];

  interface Effects {
    readonly effects: number;
    readonly firstPiece: number;
    readonly lastPiece: number;
  }

  /** At most `count` whole numbers from `first` to `last`, both among them, at the same distance. */
  function spread(first: number, last: number, count = 2): number[] {
    const steps = Math.min(count - 1, last - first);
    return Array.from({ length: steps + 1 }, (_, at) => first + Math.round((at * (last - first)) / steps));
  }

  /** A target without the mark of an unfinished move must be complete, or empty. */
  async function isMarked(to: string): Promise<boolean> {
    if (!to.startsWith('mariadb:')) {
      const [mark, index, checkpoint] = ['moving.json', 'history.sqlite', 'checkpoint.json'].map((name) =>
        fs.existsSync(join(to, name)),
      );
      assert.ok(mark || index === checkpoint);
      return mark === true;
    }
    if ((await ask(to, "SHOW TABLES LIKE 'orchestrator_audit'")).length === 0) return false;
    const [row] = await ask<{ brain: string | null; jobs: number }>(
      to,
      'SELECT brain, (SELECT COUNT(*) FROM orchestrator_jobs) AS jobs FROM orchestrator_epoch',
    );
    const mark = row?.brain?.includes('moving') === true;
    assert.ok(mark || row?.brain != null || row?.jobs === 0);
    return mark;
  }

  /** Returns what it has said, or that it was killed. */
  async function child(from: string, to: string, killAt: number): Promise<string> {
    try {
      return (await run(process.execPath, [main, from, to, String(killAt)])).stdout;
    } catch (error) {
      const { signal, stderr } = error as { signal: string; stderr: string };
      assert.equal(signal, 'SIGKILL', stderr);
      return 'killed';
    }
  }

  for (const kind of ['journal', 'mariadb']) {
    test(`into a ${kind}`, async () => {
      const { path, all } = await filledJournal();
      const make = async (): Promise<string> => (kind === 'journal' ? folder() : server.database());
      const storeOn = (to: string) => (kind === 'journal' ? journalOn(to) : tablesOn(to));
      const said = linesOf(await child(path, await make(), -1)).at(-1) ?? '';
      const { effects, firstPiece, lastPiece } = JSON.parse(said) as Effects;
      const points = [...spread(1, firstPiece, POINTS[0]), ...spread(firstPiece + 1, effects, POINTS[1])];
      for (const point of points) {
        const to = await make();
        assert.equal(await child(path, to, point), 'killed', `at ${point} of ${effects}`);
        const marked = await isMarked(to);
        // The child dies before this effect. The mark is there from the first piece on, and goes after the last.
        if (point > firstPiece && point <= lastPiece + 1) assert.ok(marked, `at ${point} of ${effects}`);
        if (marked) await assert.rejects(lead(storeOn(to)), { code: 'STORE_UNFINISHED' }, `at ${point}`);
        await child(path, to, -1);
        const moved = await lead(storeOn(to));
        assert.deepEqual(await readAll(moved), all, `killed at ${point} of ${effects}`);
        await moved.close();
      }
    });
  }
});
