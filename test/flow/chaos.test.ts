/**
 * Three nodes under load, one of them killed again and again: work goes on, nothing is lost and nothing runs twice.
 * ORCHD_CHAOS_KILLS=100 makes it longer than the few kills that every run of the tests has.
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

const KILLS = Number(process.env['ORCHD_CHAOS_KILLS'] ?? 4);
const NODES = ['a', 'b', 'c'];
const CLIENTS = 2;
/** Jobs that have to end after one kill before the next one: work has gone on. */
const JOBS_BETWEEN_KILLS = 10;

test('three nodes, one killed again and again: work goes on, nothing is lost, nothing runs twice', {
  timeout: (KILLS * 30 + 120) * 1000,
}, async (t) => {
  const cluster = await Cluster.on(t, server);
  const nodes: ServerProcess[] = [];
  for (const name of NODES) nodes.push(await cluster.start(name));
  await cluster.until(async () => (await cluster.leaderOf(nodes[0] as ServerProcess)).leader !== null);
  let jobsEnded = 0;
  let isOver = false;
  let leadersKilled = 0;
  const moreJobs = (): Promise<void> => {
    const wanted = jobsEnded + JOBS_BETWEEN_KILLS;
    return cluster.until(() => jobsEnded >= wanted || isOver);
  };
  const killer = async (): Promise<void> => {
    for (let kill = 0; kill < KILLS && !isOver; kill++) {
      await moreJobs();
      const at = kill % NODES.length;
      const victim = nodes[at] as ServerProcess;
      if ((await cluster.leaderOf(victim)).is_leader) leadersKilled++;
      await victim.kill();
      // On the same port: those who follow by way of this node find it again.
      nodes[at] = await cluster.start(NODES[at] as string, { port: victim.port });
    }
    await moreJobs();
    isOver = true;
  };
  const client = async (which: number): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      const node = nodes[(which + n) % nodes.length] as ServerProcess;
      const id = `c${which}-${n}`;
      await cluster.submit(node, id);
      const words: string[] = [];
      let result = '';
      for await (const { event, data } of new OrchdClient({ url: node.url }).events(id, {
        patienceMs: 60_000,
      })) {
        if (event === 'reset') words.length = 0;
        if (event === 'token') words.push((data as { t: string }).t.trim());
        if (event === 'end') result = JSON.stringify((data as { result: unknown }).result);
        if (event === 'error') assert.fail(`${id}: ${JSON.stringify(data)}`);
      }
      assert.match(result, /one.*two.*three/, id);
      // An executor forgets the words of an attempt whose end is durable, so whoever comes after it gets the end alone
      // (relay.test.ts: "a follower of an ended job"). Here that happens when the job ends while the follower's node is
      // down, and on a slow machine also between submit and follow. One that had heard a part before gets a reset, so
      // there are all words or none.
      if (words.length > 0) assert.deepEqual(words, ['one', 'two', 'three'], id);
      jobsEnded++;
    }
  };
  const working = [killer(), ...Array.from({ length: CLIENTS }, (_, which) => client(which))];
  await Promise.all(working).finally(() => {
    isOver = true;
  });
  await cluster.allEndedOnce(nodes[0] as ServerProcess);
  await cluster.trailIsWhole();
  t.diagnostic(`${cluster.told.size} jobs, ${KILLS} kills, ${leadersKilled} of them of the leader`);
  assert.ok(leadersKilled > 0 && cluster.told.size > KILLS);
});
