/** A leader that nobody hears and that hears nobody. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { door, makeNamespace, type Namespace } from '../fakes/namespace.ts';
import { orchd } from './cli-process.ts';
import { Cluster, type LeaderView } from './cluster-kit.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const run = promisify(execFile);

/** The database as it is reached from inside. */
async function seenFrom(t: Parameters<typeof door>[0], { outside }: Namespace, url: string): Promise<string> {
  const given = new URL(url);
  const path = given.searchParams.get('socket');
  const to = path === null ? { host: given.hostname, port: Number(given.port || 3306) } : { path };
  const port = await door(t, outside, to);
  return `mariadb://${given.username}:${given.password}@${outside}:${port}${given.pathname}`;
}

test('[NEWS-7] a leader that is cut off gives up by itself, and writes nothing when it is heard again', {
  timeout: 120_000,
}, async (t) => {
  const space = await makeNamespace(t);
  const cluster = await Cluster.on(t, server);
  const { out } = await orchd([
    'token',
    'create',
    'test',
    '--role',
    'admin',
    '--data',
    cluster.data,
    '--json',
  ]);
  const { token } = JSON.parse(out) as { token: string };
  cluster.headers = { authorization: `Bearer ${token}` };
  const config = {
    ...cluster.config('a', { url: await seenFrom(t, space, cluster.url) }),
    server: { allowed_hosts: [space.inside] },
  };
  const a = await cluster.start('a', {
    config: { ...config, orchestrator: { bind_addr: `${space.inside}:8080` } },
    within: space.within,
  });
  await cluster.leads(a);
  const b = await cluster.start('b', {
    config: { ...cluster.config('b'), orchestrator: { bind_addr: `${space.outside}:8080` } },
  });
  await cluster.until(async () => (await cluster.leaderOf(b)).leader === 'a');
  cluster.hold();
  for (const id of ['one', 'two']) await cluster.submit(b, id);
  await cluster.until(() => cluster.ledger().length === 2);

  await space.cut();
  await cluster.leads(b);
  await cluster.submit(b, 'three');
  // Asked from inside, since nobody else can.
  const script = `fetch('${a.url}/leader').then((r) => r.text()).then(console.log)`;
  const inside = async (): Promise<LeaderView> => {
    const [program, ...rest] = [...space.within, process.execPath, '-e', script];
    return JSON.parse((await run(program as string, rest)).stdout) as LeaderView;
  };
  await cluster.until(async () => !(await inside()).is_leader);
  cluster.letGo();
  await cluster.allEndedOnce(b);

  await space.mend();
  await cluster.until(async () => (await cluster.leaderOf(a)).leader === 'b');
  await cluster.submit(a, 'four');
  await cluster.allEndedOnce(a);
  await cluster.trailIsWhole();
  assert.equal((await cluster.leaderOf(a)).is_leader, false);
});
