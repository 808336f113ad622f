/** Consumers in each language with a client that hear of their jobs over a real Redis, which fails meanwhile. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { begun, type Language } from '../fakes/consumer-programs.ts';
import { needPython } from '../fakes/debian.ts';
import { type OwnRedis, testRedis } from '../fakes/redis-kit.ts';
import { aMoment, ConsumerSite, EACH } from './consumer-kit.ts';
import { serve, testFolder } from './server-process.ts';

/** Of quicker jobs a consumer asks the brain for more. */
const LONG_MS = 250;

for (const language of EACH) {
  test(`${language}: jobs are heard of over Redis, and none is lost or run twice when it is emptied and killed`, async (t) => {
    const { site, redis } = await siteOnRedis(t, language);
    const consumer = site.start(language, { redisUrl: redis.url, leaseTtlMs: 120_000 });
    const early = await untilHeard(site, redis, 'early');
    const ids = Array.from({ length: 90 }, (_, n) => `job${n}`);
    const disturbances = [() => redis.call('FLUSHALL'), () => redis.kill(), () => redis.start('empty')];
    for (const [n, id] of ids.entries()) {
      await site.submit(id, { do: 'note', lasts: LONG_MS });
      if (n % 25 !== 24) continue;
      await site.ended(id);
      await disturbances.shift()?.();
    }
    for (const id of ids) assert.equal((await site.ended(id)).state, 'succeeded', id);
    const all = [...ids, ...early, ...(await untilHeard(site, redis, 'late'))];
    assert.deepEqual(begun(site.ledger).sort(), all.map((id) => `${id}:1`).sort());
    assert.equal(consumer.child.exitCode, null);
  });
}

for (const language of EACH) {
  test(`${language}: while quick jobs keep coming, nothing is written to Redis`, async (t) => {
    const { site, redis } = await siteOnRedis(t, language);
    site.start(language, { redisUrl: redis.url });
    await untilHeard(site, redis, 'early');
    const written = async (): Promise<number> =>
      Number(/cmdstat_xadd:calls=(\d+)/.exec(String(await redis.call('INFO', 'commandstats')))?.[1]);
    const before = await written();
    const ids = Array.from({ length: 40 }, (_, n) => `quick${n}`);
    for (const id of ids) {
      await site.submit(id, { do: 'note' });
      await site.ended(id);
    }
    // The first one is heard of, and so is one that comes after a pause of the machine.
    const count = (await written()) - before;
    assert.ok(count < ids.length / 2, `${count} entries for ${ids.length} jobs`);
  });

  test(`${language}: long jobs after a quick one are shared by consumers that listen`, async (t) => {
    const { site, redis } = await siteOnRedis(t, language);
    for (let n = 0; n < 2; n++) site.start(language, { redisUrl: redis.url, slots: 16 });
    while ((await site.consumers()).length < 2) await aMoment();
    await untilHeard(site, redis, 'early', 2);
    await site.submit('quick', { do: 'note' });
    await site.ended('quick');
    const ids = Array.from({ length: 16 }, (_, n) => `long${n}`);
    for (const id of ids) {
      await site.submit(id, { do: 'note', lasts: 3000 });
      await aMoment();
    }
    const shares = new Map<string, number>();
    for (const id of ids) {
      const worker = JSON.stringify((await site.ended(id)).result);
      shares.set(worker, (shares.get(worker) ?? 0) + 1);
    }
    assert.ok(Math.max(...shares.values()) <= 13, `${[...shares.values()]}`);
  });
}

async function siteOnRedis(t: TestContext, language: Language) {
  if (language === 'Python') await needPython('python3-redis', 'redis');
  const redis = await testRedis(t);
  const folder = testFolder(t);
  const config = { redis: { url: redis.url, claim_idle_ms: 500 } };
  const brain = await serve(t, { data: `${folder}/data`, config });
  return { redis, site: new ConsumerSite(t, brain.url, folder) };
}

/** Submits jobs until so many consumers have heard of one over Redis. */
async function untilHeard(site: ConsumerSite, redis: OwnRedis, name: string, count = 1): Promise<string[]> {
  const [key, group] = ['stream:orchestrator:inference_jobs:p', 'cg:inference:p'];
  const ids: string[] = [];
  for (;;) {
    const id = `${name}${ids.length}`;
    ids.push(id);
    await site.submit(id, { do: 'note', lasts: LONG_MS });
    await site.ended(id);
    // Redis lists those that have been given an entry, and the brain, which clears up.
    const seen = await redis.call('XINFO', 'CONSUMERS', key, group).catch(() => []);
    const others = JSON.stringify(seen).match(/"name","(?!orchd")/g) ?? [];
    if (others.length >= count) return ids;
    await aMoment();
  }
}
