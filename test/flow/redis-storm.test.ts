/**
 * Consumers in Python, in Node and `orchd consume` side by side on a real Redis to which everything happens that can, under a
 * steady stream of jobs. `STORM=1`: 200 jobs a second, and faults of a minute.
 */
import { test } from 'node:test';
import { needPython } from '../fakes/debian.ts';
import { makeNamespace } from '../fakes/namespace.ts';
import { DURABLE, ownSentinel } from '../fakes/redis.ts';
import { testRedis, until } from '../fakes/redis-kit.ts';
import { ConsumerSite } from './consumer-kit.ts';
import { serve, testFolder } from './server-process.ts';
import { movingDoor, STORM, Storm } from './storm-kit.ts';

const { calmSec, faultSec } = STORM;

async function stormOn(
  t: Parameters<typeof testFolder>[0] & ConstructorParameters<typeof Storm>[0],
  redis: object,
  redisUrl: string,
): Promise<Storm> {
  await needPython('python3-redis', 'redis');
  const folder = testFolder(t);
  const server = await serve(t, {
    data: `${folder}/data`,
    config: { redis: { claim_idle_ms: 1000, ...redis } },
  });
  const storm = new Storm(t, new ConsumerSite(t, server.url, folder), { redisUrl });
  await storm.gather();
  storm.begin();
  return storm;
}

test('under load, Redis is emptied, killed, started empty, stopped and cut off: every job ends once, and is run once', async (t) => {
  const space = await makeNamespace(t);
  const redis = await testRedis(t, { host: space.inside, within: space.within, args: DURABLE });
  const storm = await stormOn(t, { url: redis.url }, redis.url);
  await storm.allHearOver(redis);
  const faults: Readonly<Record<string, () => Promise<unknown>>> = {
    emptied: () => redis.call('FLUSHALL'),
    killed: async () => {
      await redis.kill();
      await storm.more(calmSec);
      await redis.start();
    },
    'started empty': async () => {
      await redis.kill();
      await redis.start('empty');
    },
    stopped: async () => {
      redis.pause();
      await storm.more(faultSec);
      redis.resume();
    },
    'cut off': async () => {
      await space.cut();
      await storm.more(faultSec);
      await space.mend();
    },
  };
  for (const [name, disturb] of Object.entries(faults)) {
    await storm.more(calmSec);
    await disturb();
    console.log(`# ${name} after ${storm.told.length} jobs`);
  }
  await storm.more(calmSec);
  await storm.allHearOver(redis);
  await storm.end();
  await storm.check();
});

test('under load, a replica without the tail takes the place of its master: every job ends once, and is run once', async (t) => {
  const master = await testRedis(t);
  const replica = await testRedis(t, {
    args: ['--replicaof', '127.0.0.1', String(master.port), '--repl-diskless-sync-delay', '0'],
  });
  const info = async (of: { call(...args: string[]): Promise<unknown> }, section: string): Promise<string> =>
    String(await of.call('INFO', section));
  await until(async () => /master_link_status:up/.test(await info(replica, 'replication')));
  const sentinel = await ownSentinel(master);
  t.after(() => sentinel.stop());
  await until(async () => /slaves=1/.test(await info(sentinel, 'sentinel')));
  let present = master;
  // Consumers have one address for whichever server is the master.
  const door = await movingDoor(t, () => present.port);
  const sentinels = { name: 'orchd', hosts: `127.0.0.1:${sentinel.port}` };
  const storm = await stormOn(t, { sentinels }, `redis://127.0.0.1:${door}`);
  await storm.allHearOver(master);
  await storm.more(calmSec);
  replica.pause();
  await storm.more(calmSec);
  await master.kill();
  replica.resume();
  // Sentinel disconnects all clients of a server that it makes the master.
  const role = (): Promise<string> => info(replica, 'replication').catch(() => '');
  await until(async () => /role:master/.test(await role()));
  present = replica;
  await storm.more(calmSec);
  await storm.allHearOver(replica);
  await storm.end();
  await storm.check();
});
