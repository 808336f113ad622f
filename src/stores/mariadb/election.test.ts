/** The election on a real server: one node leads at a time, by the clock of the database, and a dead leader is replaced. */
import assert from 'node:assert/strict';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import { realEnv } from '../../kit/env/real.ts';
import { Opened } from '../conformance/opened.ts';
import { contend, getLock, lockNameOf, mayLead, renew } from './election.ts';
import { MariaDbLeadership } from './leadership.ts';
import { MariaDbStore } from './mariadb.ts';
import { connector, type Sql } from './sql.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const TTL_MS = 4000;
const GONE = () => Promise.resolve(true);

/** Closed with its test, also where that fails: one that beats on keeps the process alive. */
async function node(t: TestContext, url: string, name: string): Promise<MariaDbLeadership> {
  const leadership = new MariaDbLeadership(realEnv(), { url, unsafe: false, ttlMs: TTL_MS });
  t.after(() => leadership.close());
  await leadership.open({ node: name, address: `http://${name}` });
  return leadership;
}

async function run(url: string, sql: string): Promise<void> {
  const line = await connector(url)();
  await line.run(sql);
  await line.close();
}

const LINES = 'SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = DATABASE()';

test('[NEWS-7] an expired row is free; the lock frees only the row of a leader that had it and is gone', () => {
  const cases = [
    [{ expired: true, hasLock: true }, { gotLock: false, isGone: false }, true],
    [{ expired: true, hasLock: false }, { gotLock: true, isGone: false }, true],
    [{ expired: false, hasLock: true }, { gotLock: true, isGone: true }, true],
    [{ expired: false, hasLock: true }, { gotLock: true, isGone: false }, false],
    [{ expired: false, hasLock: true }, { gotLock: false, isGone: true }, false],
    [{ expired: false, hasLock: false }, { gotLock: true, isGone: true }, false],
  ] as const;
  for (const [row, known, may] of cases) assert.equal(mayLead(row, known), may, JSON.stringify([row, known]));
});

/** A leader that had the lock and lost it with its connection; returns whether its row has expired. */
async function leaderWithoutConnection(t: TestContext, url: string, address: string) {
  const [lost, line] = [await connector(url)(), await connector(url)()];
  t.after(() => line.close());
  assert.ok(await getLock(lost, lockNameOf(new URL(url).pathname.slice(1)), 0));
  await contend(lost, { node: 'a', address, ttlMs: TTL_MS }, { gotLock: true, isGone: GONE });
  const [row] = await line.query<{ at: string }>(
    'SELECT CAST(expires_at AS CHAR) AS at FROM orchestrator_epoch',
  );
  lost.destroy();
  return async (): Promise<boolean> => {
    const [now] = await line.query<{ expired: number }>('SELECT NOW(6) >= ? AS expired', [row?.at ?? '']);
    return now?.expired === 1;
  };
}

test('[NEWS-7] a leader that lost its connection and may be alive is not followed before its time is over', async (t) => {
  const url = await server.database();
  const b = await node(t, url, 'b');
  // It gets connections and answers nothing, as a process that is stopped.
  const listener = createServer();
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  t.after(() => listener.close());
  const { port } = listener.address() as AddressInfo;
  const isExpired = await leaderWithoutConnection(t, url, `http://127.0.0.1:${port}`);
  await b.win();
  assert.ok(await isExpired());
});

test('[NEWS-7] a leader that lost its connection is followed at once where nobody listens at its address', async (t) => {
  const url = await server.database();
  const b = await node(t, url, 'b');
  const isExpired = await leaderWithoutConnection(t, url, 'http://127.0.0.1:1');
  await b.win();
  assert.ok(!(await isExpired()));
});

test('a node that was killed follows itself at once', async (t) => {
  const url = await server.database();
  const a = await node(t, url, 'a');
  const isExpired = await leaderWithoutConnection(t, url, 'http://a');
  await a.win();
  assert.ok(!(await isExpired()));
});

test('[NEWS-7] one node leads, the others know where it is, and the next one leads as soon as it gives up', async (t) => {
  const url = await server.database();
  const [a, b] = [await node(t, url, 'a'), await node(t, url, 'b')];
  const first = await a.win();
  assert.ok(first.holds());
  let won = false;
  const waiting = b.win().finally(() => {
    won = true;
  });
  while (!b.leader) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([b.leader?.node, b.leader?.address, b.leader?.epoch], ['a', 'http://a', first.epoch]);
  assert.ok(!won);
  await a.resign();
  await first.over;
  assert.ok(!first.holds());
  const second = await waiting;
  assert.ok(second.holds() && second.epoch > first.epoch);
});

test('[NEWS-7] a row that was taken over by force ends the term', async (t) => {
  const url = await server.database();
  const a = await node(t, url, 'a');
  const term = await a.win();
  await run(url, 'UPDATE orchestrator_epoch SET epoch = epoch + 1 WHERE id = 1');
  await term.over;
  assert.ok(!term.holds());
});

test('a lost line does not end a term', async (t) => {
  const url = await server.database();
  const a = await node(t, url, 'a');
  const term = await a.win();
  const line = await connector(url)();
  let over = false;
  void term.over.then(() => {
    over = true;
  });
  for (let round = 0; round < 3; round++) {
    const others = await line.query<{ id: number }>(LINES);
    for (const { id } of others) await line.run(`KILL ${id}`);
    const before = await line.query<{ at: string }>('SELECT expires_at AS at FROM orchestrator_epoch');
    let now = before;
    while (String(now[0]?.at) === String(before[0]?.at) && !over)
      now = await line.query<{ at: string }>('SELECT expires_at AS at FROM orchestrator_epoch');
  }
  // Without its line it may have lost the lead, and does not hold it until it knows better.
  while (!over && !term.holds()) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(!over);
  await line.close();
});

test('a leader that falls silent within a transaction keeps nobody from the lead', async (t) => {
  const url = await server.database();
  const b = await node(t, url, 'b');
  const silent = await connector(url)();
  const epoch = await contend(
    silent,
    { node: 'a', address: '', ttlMs: 100 },
    { gotLock: false, isGone: GONE },
  );
  await silent.begin();
  await silent.run('UPDATE orchestrator_epoch SET last_at = last_at + 1 WHERE id = 1');
  const term = await b.win();
  assert.ok(term.epoch === (epoch ?? 0) + 1 && term.holds());
  silent.destroy();
});

test('[NEWS-7] of two nodes that are both told that they have the lock, one leads', async (t) => {
  const url = await server.database();
  await node(t, url, 'a');
  const lines = await Promise.all([connector(url)(), connector(url)()]);
  const epochs: (number | undefined)[] = [];
  // The second one is wrong about the first one.
  for (const [at, sql] of lines.entries())
    epochs.push(
      await contend(sql, { node: `n${at}`, address: '', ttlMs: TTL_MS }, { gotLock: true, isGone: GONE }),
    );
  const [lower, higher] = epochs;
  assert.ok(lower !== undefined && higher !== undefined && lower < higher);
  const keeps = (epoch: number) => renew(lines[0] as Sql, epoch, TTL_MS, { hasLock: true, silentMs: 0 });
  assert.deepEqual([await keeps(lower), await keeps(higher)], [false, true]);
  const late = new MariaDbStore(realEnv(), {
    connect: connector(url),
    term: { epoch: lower, holds: () => true, over: new Promise(() => undefined) },
  });
  await assert.rejects(new Opened(late).open(), { code: 'FENCED' });
  await Promise.all(lines.map((sql) => sql.close()));
});

test('[NEWS-7] of two nodes that find the row free, the one that writes first leads', async (t) => {
  const url = await server.database();
  await node(t, url, 'a');
  const [first, second] = [await connector(url)(), await connector(url)()];
  t.after(() => Promise.all([first.close(), second.close()]));
  const stand = (sql: Sql, name: string): Promise<number | undefined> =>
    contend(sql, { node: name, address: '', ttlMs: TTL_MS }, { gotLock: false, isGone: GONE });
  let epoch: number | undefined;
  const begin = second.begin.bind(second);
  second.begin = async () => {
    epoch = await stand(first, 'first');
    await begin();
  };
  assert.equal(await stand(second, 'second'), undefined);
  assert.equal(epoch, 1);
});

test('[NEWS-7] the time of a lead is counted by the clock of the database, whatever that of the node says', async (t) => {
  const url = await server.database();
  await node(t, url, 'a');
  const sql = await connector(url)();
  t.after(() => sql.close());
  const leftMs = async (): Promise<number> => {
    const select =
      'SELECT TIMESTAMPDIFF(MICROSECOND, NOW(6), expires_at) / 1000 AS ms FROM orchestrator_epoch';
    return Number((await sql.query<{ ms: number }>(select))[0]?.ms);
  };
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 86_400_000 });
  const self = { node: 'a', address: '', ttlMs: 60_000 };
  const epoch = (await contend(sql, self, { gotLock: false, isGone: GONE })) ?? 0;
  const granted = await leftMs();
  assert.ok(granted > 0 && granted <= 60_000, String(granted));
  assert.ok(await renew(sql, epoch, 120_000, { hasLock: false, silentMs: 0 }));
  const renewed = await leftMs();
  assert.ok(renewed > 60_000 && renewed <= 120_000, String(renewed));
});

test('a node that is too old for the tables never leads', async (t) => {
  const url = await server.database();
  await node(t, url, 'a');
  await run(url, 'UPDATE orchestrator_schema SET version = version + 1');
  const sql = await connector(url)();
  assert.equal(
    await contend(sql, { node: 'a', address: '', ttlMs: TTL_MS }, { gotLock: true, isGone: GONE }),
    undefined,
  );
  await run(url, 'UPDATE orchestrator_schema SET version = version - 1');
  assert.equal(
    await contend(sql, { node: 'a', address: '', ttlMs: TTL_MS }, { gotLock: true, isGone: GONE }),
    1,
  );
  await sql.close();
});
