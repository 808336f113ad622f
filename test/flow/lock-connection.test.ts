/** A leader whose connection with the lock is killed, while the node itself goes on. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { lockNameOf } from '../../src/stores/mariadb/election.ts';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { Cluster, type LeaderView } from './cluster-kit.ts';
import type { ServerProcess } from './server-process.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const ROUNDS = 4;
/** Long, so that a leader which notices only at its next renewal notices late. */
const LEASE_MS = 5000;

async function lockHolder(sql: Sql, lock: string): Promise<number | null> {
  const [row] = await sql.query<{ id: number | null }>('SELECT IS_USED_LOCK(?) AS id', [lock]);
  return row?.id ?? null;
}

async function rowOf(sql: Sql): Promise<string> {
  const [row] = await sql.query<{ said: string }>(
    'SELECT CONCAT(epoch, CAST(expires_at AS CHAR)) AS said FROM orchestrator_epoch',
  );
  return row?.said ?? '';
}

const statusOf = async (node: ServerProcess, id: string): Promise<number> =>
  (await fetch(`${node.url}/v2/tasks/${id}`)).status;

/** Whether both led at one instant: the first one before and after the second one said so. */
async function bothLead(cluster: Cluster, first: ServerProcess, second: ServerProcess): Promise<boolean> {
  const views: LeaderView[] = [];
  for (const node of [first, second, first]) views.push(await cluster.leaderOf(node));
  return views.every(({ is_leader }) => is_leader) && views[0]?.epoch === views[2]?.epoch;
}

test('a killed connection makes no second leader, and every node finds what was acknowledged', {
  timeout: 120_000,
}, async (t) => {
  const cluster = await Cluster.on(t, server);
  const config = (node: string) => ({
    ...cluster.config(node),
    cluster: { node, lease_ms: LEASE_MS, hold_ms: 60_000 },
  });
  const nodes = [await cluster.start('a', { config: config('a') })];
  await cluster.leads(nodes[0]!);
  nodes.push(await cluster.start('b', { config: config('b') }));
  await cluster.until(async () => (await cluster.leaderOf(nodes[1]!)).leader === 'a');
  const sql = await connector(cluster.url)();
  t.after(() => sql.close());
  const lock = lockNameOf(new URL(cluster.url).pathname.slice(1));
  let jobs = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const [leader, other] = (await cluster.leaderOf(nodes[0]!)).is_leader ? nodes : nodes.toReversed();
    let holder = await lockHolder(sql, lock);
    while (holder === null) holder = await lockHolder(sql, lock);
    // A killed thread may have ended by itself meanwhile.
    await sql.run(`KILL ${holder}`).catch(() => undefined);
    const seen = new Set<string>();
    while (seen.size < 4) {
      assert.ok(!(await bothLead(cluster, leader!, other!)), 'two nodes lead');
      const id = `job-${++jobs}`;
      await cluster.submit(other!, id);
      for (const node of nodes) assert.equal(await statusOf(node, id), 200, id);
      seen.add(await rowOf(sql));
    }
  }
  await cluster.allEndedOnce(nodes[0]!);
  await cluster.trailIsWhole();
});
