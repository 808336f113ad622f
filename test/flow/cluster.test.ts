/** Real nodes have one leader at a time, whatever happens to it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { loadConfig } from '../../src/config/load.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { Cluster } from './cluster-kit.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const LONG = { timeout: 120_000 };

test(
  '[NEWS-7] a leader that is killed is replaced at once; its work goes on and nothing runs twice',
  LONG,
  async (t) => {
    const cluster = await Cluster.on(t, server);
    // The test would run into its time limit if somebody waited for the end of this lease.
    const lasting = (node: string) => ({ config: cluster.config(node, { leaseMs: 600_000 }) });
    const a = await cluster.start('a', lasting('a'));
    await cluster.leads(a);
    const b = await cluster.start('b', lasting('b'));
    await cluster.until(async () => (await cluster.leaderOf(b)).leader === 'a');
    assert.equal((await cluster.get<{ status: string }>(b, '/health')).status, 'ok');
    cluster.hold();
    for (const id of ['one', 'two', 'three']) await cluster.submit(b, id);
    await cluster.until(() => cluster.ledger().length === 3);
    const events: string[] = [];
    const followed = (async () => {
      // By way of the node that does not lead, over the death of the one that does.
      for await (const { event, data } of new OrchdClient({ url: b.url }).events('one')) {
        events.push(event === 'token' ? (data as { t: string }).t.trim() : event);
      }
    })();
    await cluster.until(() => events.includes('one'));
    const { epoch } = await cluster.leaderOf(b);
    await a.kill();
    await cluster.submit(b, 'four');
    cluster.letGo();
    await followed;
    assert.deepEqual(
      events.filter((event) => event !== 'queued'),
      ['started', 'one', 'two', 'three', 'end'],
    );
    const now = await cluster.leaderOf(b);
    assert.ok(now.is_leader && (now.epoch ?? 0) > (epoch ?? 0));
    await cluster.allEndedOnce(b);
    await cluster.trailIsWhole();
  },
);

test(
  '[NEWS-7] a leader that is stopped past its time writes nothing when it wakes, and stands by',
  LONG,
  async (t) => {
    assert.equal(loadConfig({}).cluster.leaseMs, 5000, 'within seconds, where nothing is configured');
    const cluster = await Cluster.on(t, server);
    const a = await cluster.start('a');
    await cluster.leads(a);
    const b = await cluster.start('b');
    await cluster.until(async () => (await cluster.leaderOf(b)).leader === 'a');
    cluster.hold();
    for (const id of ['one', 'two']) await cluster.submit(a, id);
    await cluster.until(() => cluster.ledger().length === 2);
    // Asked while it cannot answer: it finds this in its socket when it wakes.
    a.child.kill('SIGSTOP');
    const late = cluster.submit(a, 'late');
    // On its way to a leader that will not answer: whoever leads next does.
    const asked = fetch(`${b.url}/v2/tasks/one`);
    await cluster.leads(b);
    assert.equal((await asked).status, 200);
    await cluster.submit(b, 'three');
    cluster.letGo();
    a.child.kill('SIGCONT');
    await late;
    await cluster.until(async () => (await cluster.leaderOf(a)).leader === 'b');
    assert.equal((await cluster.leaderOf(a)).is_leader, false);
    await cluster.allEndedOnce(a);
    await cluster.trailIsWhole();
    await b.kill();
    await cluster.submit(a, 'again');
    await cluster.allEndedOnce(a);
    await cluster.trailIsWhole();
  },
);
