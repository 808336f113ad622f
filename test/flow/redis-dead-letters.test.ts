/** Dead jobs in the stream `:dlq`, on every store that lasts. */
import assert from 'node:assert/strict';
import { deadLetters, testRedis, until } from '../fakes/redis-kit.ts';
import { LASTING, onStores } from './flow-kit.ts';
import { StreamSite } from './redis-kit.ts';

const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always'];

onStores(
  'each dead job is mirrored to the DLQ once, over restarts and while Redis is away',
  LASTING,
  async (t, data) => {
    const redis = await testRedis(t, { args: DURABLE });
    const site = new StreamSite(t, redis, data);
    site.token('submit', 'other');
    const idsAre = (...expected: readonly string[]) =>
      until(async () => {
        const ids = (await deadLetters(redis)).map(({ tenant, job_id }) => `${tenant}/${job_id}`);
        return ids.join() === expected.join();
      });
    await site.start();
    await site.orchestrator.submit({ type: 'work', job_id: 'fine' });
    await site.orchestrator.wait('fine');
    await site.die('a');
    await site.die('b', 'other');
    await idsAre('default/a', 'other/b');
    const [letter] = await deadLetters(redis);
    const { last_error, ...rest } = letter ?? {};
    assert.deepEqual(rest, {
      job_id: 'a',
      origin_id: 'a',
      attempts: '1',
      reason: 'failed',
      type: 'fail',
      tenant: 'default',
    });
    assert.match(last_error ?? '', /^[A-Z_]+: .*it cannot be done/);
    await redis.kill();
    await site.die('c', 'other');
    await site.stop();
    await site.start();
    await site.die('d');
    await redis.start();
    await idsAre('default/a', 'other/b', 'other/c', 'default/d');
    await site.stop();
    await site.start();
    await site.die('e');
    await idsAre('default/a', 'other/b', 'other/c', 'default/d', 'default/e');
    // Redriven, it dies a second time.
    await site.orchestrator.redrive('a');
    await site.orchestrator.wait('a');
    await until(async () => (await deadLetters(redis)).length === 6);
    const again = (await deadLetters(redis))[5];
    assert.deepEqual([again?.['job_id'], again?.['attempts']], ['a', '2']);
  },
);

onStores('jobs that died in a crowd while no mirror ran are all in the DLQ', LASTING, async (t, data) => {
  const redis = await testRedis(t);
  await redis.kill();
  const site = new StreamSite(t, redis, data);
  await site.start();
  const ids = Array.from({ length: 1200 }, (_, n) => `job-${n}`);
  const requests = ids.map((id) => ({ type: 'fail', job_id: id, max_tries: 1 }));
  for (let n = 0; n < ids.length; n += 400) await site.orchestrator.submitMany(requests.slice(n, n + 400));
  await Promise.all(ids.map((id) => site.orchestrator.wait(id)));
  await site.stop();
  await redis.start();
  await site.start();
  const mirrored = async (): Promise<string[]> => (await deadLetters(redis)).map(({ job_id = '' }) => job_id);
  const dies = async (id: string): Promise<string[]> => {
    await site.die(id);
    await until(async () => (await mirrored()).includes(id));
    return mirrored();
  };
  const first = await dies('next');
  assert.deepEqual(
    first.slice(0, -1).sort(),
    [...ids].sort(),
    'deaths while no mirror ran come first, and none is missing',
  );
  await site.stop();
  await site.start();
  assert.deepEqual(await dies('last'), [...first, 'last'], 'the next start goes on from there');
});
