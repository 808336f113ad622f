/** Consumers in each language with a client that hear of their jobs over a real Redis, which fails meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { begun } from '../fakes/consumer-programs.ts';
import { needPython } from '../fakes/debian.ts';
import { type OwnRedis, testRedis } from '../fakes/redis-kit.ts';
import { aMoment, ConsumerSite, EACH } from './consumer-kit.ts';
import { serve, testFolder } from './server-process.ts';

/** Of quicker jobs a consumer asks the brain for more. */
const LONG_MS = 250;

for (const language of EACH) {
  test(`${language}: jobs are heard of over Redis, and none is lost or run twice when it is emptied and killed`, async (t) => {
    if (language === 'Python') await needPython('python3-redis', 'redis');
    const redis = await testRedis(t);
    const folder = testFolder(t);
    const config = { redis: { url: redis.url, claim_idle_ms: 500 } };
    const brain = await serve(t, { data: `${folder}/data`, config });
    const site = new ConsumerSite(t, brain.url, folder);
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

/** Submits jobs until the consumer has heard of one over Redis. */
async function untilHeard(site: ConsumerSite, redis: OwnRedis, name: string): Promise<string[]> {
  const [key, group] = ['stream:orchestrator:inference_jobs:p', 'cg:inference:p'];
  const ids: string[] = [];
  for (;;) {
    const id = `${name}${ids.length}`;
    ids.push(id);
    await site.submit(id, { do: 'note', lasts: LONG_MS });
    await site.ended(id);
    // Redis lists those that have been given an entry, and the brain, which clears up.
    const seen = await redis.call('XINFO', 'CONSUMERS', key, group).catch(() => []);
    if (JSON.stringify(seen).match(/"name","(?!orchd")/)) return ids;
    await aMoment();
  }
}
