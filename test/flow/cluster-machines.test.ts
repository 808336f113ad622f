/** Nodes on machines of their own: what runs on one of them cannot be reached from the others. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, test } from 'node:test';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { Cluster, type Job } from './cluster-kit.ts';
import type { ServerProcess } from './server-process.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const LONG = { timeout: 120_000 };
const AS_COPY = ['--this-is-a-copy'];

const start = (cluster: Cluster, node: string, args: readonly string[] = []): Promise<ServerProcess> =>
  cluster.start(node, { data: cluster.dataOf(node), args });

interface Capabilities {
  readonly backends: readonly { readonly up: boolean; readonly problem?: string }[];
}

const shell = async (cluster: Cluster, node: ServerProcess): Promise<Capabilities['backends'][number]> =>
  (await cluster.get<Capabilities>(node, '/v2/meta/capabilities')).backends[0]!;

/** The owner of the store, which executors know. */
async function ownerOf(cluster: Cluster): Promise<string> {
  const sql = await connector(cluster.url)();
  try {
    const [row] = await sql.query<{ brain: string }>('SELECT brain FROM orchestrator_epoch');
    return (JSON.parse(row!.brain) as { owner: string }).owner;
  } finally {
    await sql.close();
  }
}

test(
  'what runs on a machine that is gone is neither run again elsewhere nor lost: its node takes it up',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    const a = await start(cluster, 'a');
    await cluster.leads(a);
    const b = await start(cluster, 'b');
    cluster.hold();
    await cluster.submit(a, 'there');
    await cluster.until(() => cluster.ledger().length === 1);
    await a.kill();
    await cluster.submit(b, 'waits');
    await cluster.until(async () => (await cluster.get<Job>(b, '/v2/tasks/there')).state === 'stale');
    const waits = await cluster.get<Job & { waiting?: { text: string } }>(b, '/v2/tasks/waits');
    assert.match(waits.waiting?.text ?? '', /it runs at node "a"/);
    const { up, problem = '' } = await shell(cluster, b);
    assert.equal(up, false, 'nothing can run on it');
    assert.match(problem, /at node "a"/);
    const again = await start(cluster, 'a');
    await cluster.until(async () => (await cluster.leaderOf(again)).leader === 'b');
    await b.kill();
    await cluster.leads(again);
    assert.equal((await shell(cluster, again)).up, true);
    cluster.letGo();
    await cluster.allEndedOnce(again);
    assert.equal((await cluster.get<Job>(again, '/v2/tasks/there')).attempts.length, 1);
    await cluster.trailIsWhole();
  },
);

test(
  'a leader that is stopped in an orderly way answers until its commands have ended; the next one goes on with the rest',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    const a = await start(cluster, 'a');
    await cluster.leads(a);
    const b = await start(cluster, 'b');
    await cluster.until(async () => (await cluster.leaderOf(b)).leader === 'a');
    cluster.hold();
    await cluster.submit(b, 'runs');
    await cluster.until(() => cluster.ledger().length === 1);
    a.child.kill('SIGTERM');
    // It starts nothing any more, and waits.
    await cluster.until(async () => (await fetch(`${a.url}/ready`)).status === 503);
    await cluster.submit(b, 'later');
    assert.equal((await cluster.leaderOf(b)).leader, 'a');
    assert.deepEqual(cluster.ledger(), ['runs']);
    cluster.letGo();
    assert.equal((await a.ended).code, 0);
    await cluster.leads(b);
    await cluster.allEndedOnce(b);
    assert.equal((await cluster.get<Job>(b, '/v2/tasks/runs')).attempts.length, 1);
    await cluster.trailIsWhole();
  },
);

test(
  'a node on a copied folder is refused when its process starts, not when it is elected',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    const a = await start(cluster, 'a');
    await cluster.leads(a);
    fs.cpSync(cluster.dataOf('a'), cluster.dataOf('b'), { recursive: true });
    await assert.rejects(start(cluster, 'b'), /is a copy of another folder.*--this-is-a-copy/s);
    assert.equal((await cluster.leaderOf(a)).is_leader, true);
  },
);

test(
  'a node on a folder that is said to be a copy leaves the database as it is: nothing that runs elsewhere runs again',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    const a = await start(cluster, 'a');
    await cluster.leads(a);
    cluster.hold();
    await cluster.submit(a, 'there');
    await cluster.until(() => cluster.ledger().length === 1);
    const owner = await ownerOf(cluster);
    fs.cpSync(cluster.dataOf('a'), cluster.dataOf('b'), { recursive: true });
    const b = await start(cluster, 'b', AS_COPY);
    await a.kill();
    await cluster.leads(b);
    await cluster.until(async () => (await cluster.get<Job>(b, '/v2/tasks/there')).state === 'stale');
    assert.equal(await ownerOf(cluster), owner, 'workers know the brain of a copy as the same one');
    const again = await start(cluster, 'a');
    await cluster.until(async () => (await cluster.leaderOf(again)).leader === 'b');
    await b.kill();
    await cluster.leads(again);
    cluster.letGo();
    await cluster.allEndedOnce(again);
    assert.equal((await cluster.get<Job>(again, '/v2/tasks/there')).attempts.length, 1);
  },
);

test(
  'a node that was started on a copy takes up its own commands when it leads again in the same process',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    const a = await start(cluster, 'a', AS_COPY);
    await cluster.leads(a);
    const b = await start(cluster, 'b');
    cluster.hold();
    await cluster.submit(a, 'runs');
    await cluster.until(() => cluster.ledger().length === 1);
    a.child.kill('SIGSTOP');
    await cluster.leads(b);
    a.child.kill('SIGCONT');
    await cluster.until(async () => (await cluster.leaderOf(a)).leader === 'b');
    await b.kill();
    await cluster.leads(a);
    cluster.letGo();
    await cluster.allEndedOnce(a);
    assert.equal((await cluster.get<Job>(a, '/v2/tasks/runs')).attempts.length, 1);
  },
);
