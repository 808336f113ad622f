/**
 * Three nodes under load, one of them killed again and again: work goes on, nothing is lost and nothing runs twice.
 * ORCHD_CHAOS_SEC makes it longer than the few kills that every run of the tests has.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { Cluster } from './cluster-kit.ts';
import type { ServerProcess } from './server-process.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const SECONDS = Number(process.env['ORCHD_CHAOS_SEC'] ?? 20);
const KILL_EVERY_MS = SECONDS > 60 ? 10_000 : 5000;
const NODES = ['a', 'b', 'c'];
const CLIENTS = 2;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('three nodes, one killed every few seconds: work goes on, nothing is lost, nothing runs twice', {
  timeout: (SECONDS + 120) * 1000,
}, async (t) => {
  const cluster = await Cluster.on(t, server);
  const nodes: ServerProcess[] = [];
  for (const name of NODES) nodes.push(await cluster.start(name));
  await cluster.until(async () => (await cluster.leaderOf(nodes[0] as ServerProcess)).leader !== null);
  const end = performance.now() + SECONDS * 1000;
  let kills = 0;
  let leadersKilled = 0;
  const killer = async (): Promise<void> => {
    for (let at = 0; performance.now() < end; at = (at + 1) % NODES.length) {
      await sleep(KILL_EVERY_MS);
      const victim = nodes[at] as ServerProcess;
      if ((await cluster.leaderOf(victim)).is_leader) leadersKilled++;
      await victim.kill();
      kills++;
      // On the same port: those who follow by way of this node find it again.
      nodes[at] = await cluster.start(NODES[at] as string, { port: victim.port });
    }
  };
  const client = async (which: number): Promise<void> => {
    for (let n = 0; performance.now() < end; n++) {
      const node = nodes[(which + n) % nodes.length] as ServerProcess;
      const id = `c${which}-${n}`;
      await cluster.submit(node, id);
      const words: string[] = [];
      for await (const { event, data } of new OrchdClient({ url: node.url }).events(id, {
        patienceMs: 60_000,
      })) {
        if (event === 'reset') words.length = 0;
        if (event === 'token') words.push((data as { t: string }).t.trim());
        if (event === 'error') assert.fail(`${id}: ${JSON.stringify(data)}`);
      }
      assert.deepEqual(words, ['one', 'two', 'three'], id);
    }
  };
  await Promise.all([killer(), ...Array.from({ length: CLIENTS }, (_, which) => client(which))]);
  await cluster.allEndedOnce(nodes[0] as ServerProcess);
  await cluster.trailIsWhole();
  t.diagnostic(`${cluster.told.size} jobs, ${kills} kills, ${leadersKilled} of them of the leader`);
  assert.ok(leadersKilled > 0 && cluster.told.size > kills);
});
