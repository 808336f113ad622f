/** Worker pools on MariaDB that `orchd provision` and others hear of over a real Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkerPoolView } from '../../src/model/http/worker-pools.ts';
import { entriesOf, type OwnRedis, testRedis, until } from '../fakes/redis-kit.ts';
import { dataOf, within } from './flow-kit.ts';
import { ProvisionSite } from './provision-kit.ts';

const KEY = 'stream:orchestrator:preloads';
const GROUP = 'cg:preloads:workers';
/** More sizes than a provisioner takes to hear of one over Redis. */
const MAX_SIZES = 30;
const PATIENCE_MS = 180_000;

/** Reads as a program in any language does, and leaves the entries pending. */
async function readAs(redis: OwnRedis, name: string): Promise<Record<string, string>[]> {
  const read = ['XREADGROUP', 'GROUP', GROUP, name, 'COUNT', '10', 'STREAMS', KEY, '>'];
  const reply = (await redis.call(...read)) as [string, [string, string[]][]][] | null;
  return (reply ?? []).flatMap(([, entries]) =>
    entries.map(([, flat]) =>
      Object.fromEntries(
        Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]]),
      ),
    ),
  );
}

test('[NEWS-4] [NEWS-3] worker pools of programs outside are heard of by `:preloads`, whatever becomes of Redis and the brain, and their entries go when they are carried out', async (t) => {
  const redis = await testRedis(t);
  const config = { redis: { url: redis.url, claim_idle_ms: 1000 } };
  const site = await ProvisionSite.of(t, await dataOf(t, 'mariadb'), config);
  // It hears of changes over Redis alone: the next time that it would ask is later than the test.
  const provision = () =>
    site.provision({ words: ['--interval', '10h', '--redis', redis.url], command: ['sleep', '600'] });
  const isEmpty = (): Promise<void> => until(async () => (await redis.call('XLEN', KEY)) === 0);
  let provisioner = provision();
  await provisioner.saw('err', /at work/);
  // No pool manager is there that could start it; it is nobody else's to start.
  await site.call('POST', '/v2/catalog/models', { model_id: 'm', model_ref: 'demo:m', size_bytes: 1 });
  await site.create(1, 'own', { model_id: 'm' });
  const spec = { agent_name: 'embedder', adapter: '/srv/a.gguf', variant: 'fp16', metadata: { rack: '7' } };
  await site.create(2, 'p', spec);
  await within(site.agree(2, 'running'), PATIENCE_MS);
  await within(isEmpty(), PATIENCE_MS);
  // Redis lists those that were given an entry: the brain, which clears up, and whoever else has read one.
  const isRead = async (): Promise<boolean> =>
    /"name","(?!orchd")/.test(JSON.stringify(await redis.call('XINFO', 'CONSUMERS', KEY, GROUP)));
  for (let [size, tries] = [3, 0]; !(await isRead()); size = 5 - size) {
    assert.ok(tries++ < MAX_SIZES, 'no provisioner reads the stream');
    await site.resize(size);
    await within(site.agree(size, 'running'), PATIENCE_MS);
  }

  await redis.call('FLUSHALL');
  await site.resize(3);
  await within(site.agree(3, 'running'), PATIENCE_MS);
  await site.killBrain();
  await site.resize(1);
  await within(site.agree(1, 'running'), PATIENCE_MS);
  await site.kill(provisioner);

  const { ordered_at: at } = await site.resize(4);
  const fields = {
    pool_id: 'p',
    ...{ agent_name: 'embedder', adapter: '/srv/a.gguf', variant: 'fp16' },
    ...{ desired_workers: '4', wished_workers: '4', status: 'starting', ordered_at: String(at) },
  };
  const holds = async (expected: object): Promise<void> =>
    within(
      until(async () => JSON.stringify(await entriesOf(redis, KEY)) === JSON.stringify([expected])),
      PATIENCE_MS,
    );
  await holds(fields);
  assert.deepEqual(await readAs(redis, 'one'), [fields]);
  // It has read and died: after a while another one hears of it.
  const heard: object[] = [];
  await within(
    until(async () => heard.push(...(await readAs(redis, 'another'))) > 0),
    PATIENCE_MS,
  );
  assert.deepEqual(heard, [fields]);
  for (const empty of [() => redis.call('FLUSHALL'), () => site.killBrain()]) {
    await empty();
    await holds(fields);
  }
  // A consumer of the pool has not finished when the grace time of a drain is over.
  const declared = { pool: 'p', slots: 1, types: ['work'], lease_ttl_ms: 600_000 };
  const { consumer_id: id } = await site.call<{ consumer_id: string }>('POST', '/v2/consumers', declared);
  await site.submit('held', {});
  await site.call('POST', `/v2/consumers/${id}/claim`, { claim: 1, max: 1 });
  const { ordered_at: drained } = await site.call<WorkerPoolView>('POST', '/workers/pool/p/drain', {
    grace_seconds: 0,
  });
  const over = { ...fields, wished_workers: '0', status: 'draining', ordered_at: String(drained) };
  await holds({ ...over, grace_over: 'true' });

  // What is superseded goes, and what nobody of ours has written is moved to the DLQ.
  await redis.call('XADD', KEY, '*', 'junk', '1');
  const { ordered_at: later } = await site.order('evict');
  await holds({
    ...fields,
    ...{ wished_workers: '0', status: 'evicted', ordered_at: String(later) },
  });
  const [letter] = await entriesOf(redis, 'stream:orchestrator:dlq');
  assert.deepEqual([letter?.['stream'], letter?.['entry']], [KEY, '{"junk":"1"}']);

  provisioner = provision();
  await within(site.agree(0, 'evicted'), PATIENCE_MS);
  await within(isEmpty(), PATIENCE_MS);
  await site.call('DELETE', '/workers/pool/p');
  await until(async () => (await entriesOf(redis, KEY))[0]?.['status'] === 'deleted');
  // Nobody says that it has heard of it: the entry goes after a while.
  await within(isEmpty(), PATIENCE_MS);
});
