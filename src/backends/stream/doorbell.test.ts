import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heapUsed } from '../../../test/fakes/heap-used.ts';
import {
  deadLetters,
  doorbellOn,
  entriesOf,
  fill,
  hint,
  hints,
  isUp,
  readAs,
  sweepUntil,
  testRedis,
  tokensIn,
  until,
} from '../../../test/fakes/redis-kit.ts';

const KEY = 'stream:orchestrator:inference_jobs';

test('a job that waits is heard once, and its entry is gone after its end', async (t) => {
  const redis = await testRedis(t);
  const { connection, doorbell } = await doorbellOn(t, { url: redis.url });
  await isUp(connection);
  for (const pool of ['default', 'big.gpu']) {
    const job = hint(1, pool, { payloadText: '{"prompt":"hi"}' });
    doorbell.publish(job);
    doorbell.publish(job);
    await doorbell.idle();
    doorbell.publish(job);
    await doorbell.idle();
    const key = pool === 'default' ? KEY : `${KEY}:${pool}`;
    const expected = { job_id: 'job-1', token: 'job-1:1', type: 'work', payload: '{"prompt":"hi"}' };
    assert.deepEqual(await entriesOf(redis, key), [expected]);
    assert.deepEqual(await readAs(redis, 'c1', pool), ['job-1:1']);
    doorbell.settled(pool, 'job-1:1');
    await doorbell.idle();
    assert.equal(await redis.call('XLEN', key), 0);
    const group = pool === 'default' ? 'cg:inference' : `cg:inference:${pool}`;
    assert.deepEqual((await redis.call('XPENDING', key, group)) as unknown[], [0, null, null, null]);
  }
});

test('a payload beyond payload_bytes stays out of the entry, and with 0 each one does', async (t) => {
  const redis = await testRedis(t);
  const { connection, doorbell } = await doorbellOn(t, { url: redis.url, payload_bytes: 10 });
  await isUp(connection);
  doorbell.publish(hint(1, 'default', { payloadText: '"12345678"' }));
  doorbell.publish(hint(2, 'default', { payloadText: '"123456789"' }));
  await doorbell.idle();
  const none = await doorbellOn(t, { url: redis.url, payload_bytes: 0 });
  await isUp(none.connection);
  none.doorbell.publish(hint(3, 'default', { payloadText: '""' }));
  await none.doorbell.idle();
  const payloads = (await entriesOf(redis, KEY)).map(({ payload }) => payload);
  assert.deepEqual(payloads, ['"12345678"', undefined, undefined]);
});

test('a consumer that comes before the first job, and one that comes after it, hear of it', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  site.doorbell.sweep([hints([], [], 'early')]);
  await site.doorbell.idle();
  assert.deepEqual(await readAs(redis, 'c1', 'early'), []);
  site.doorbell.publish(hint(1, 'early'));
  site.doorbell.publish(hint(1, 'late'));
  await site.doorbell.idle();
  assert.deepEqual(await readAs(redis, 'c1', 'early'), ['job-1:1']);
  assert.deepEqual(await readAs(redis, 'c1', 'late'), ['job-1:1']);
});

test('after a FLUSHALL the streams and groups are there again, with what waits and nothing else', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  const waiting = [hint(1), hint(2)];
  for (const each of [...waiting, hint(3)]) site.doorbell.publish(each);
  await site.doorbell.idle();
  assert.deepEqual(await readAs(redis, 'c1'), ['job-1:1', 'job-2:1', 'job-3:1']);
  await redis.call('FLUSHALL');
  const pools = [hints(waiting, ['job-3:1'])];
  await sweepUntil(site, pools, async () => (await tokensIn(redis)).length === 2);
  assert.deepEqual(await readAs(redis, 'c1'), ['job-1:1', 'job-2:1']);
  site.doorbell.sweep(pools);
  await site.doorbell.idle();
  assert.deepEqual(await tokensIn(redis), ['job-1:1', 'job-2:1']);
});

for (const how of ['as it was', 'empty'] as const)
  test(`killed and started again ${how}, Redis has what waits`, async (t) => {
    const redis = await testRedis(t, { args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    const site = await doorbellOn(t, { url: redis.url });
    await isUp(site.connection);
    for (const n of [1, 2, 3]) site.doorbell.publish(hint(n));
    await site.doorbell.idle();
    await redis.kill('SIGKILL');
    await until(() => !site.connection.isUp);
    // Calls while it is away return at once, and throw nothing.
    site.doorbell.settled('default', 'job-2:1');
    site.doorbell.publish(hint(4));
    site.doorbell.sweep([hints([hint(1), hint(3), hint(4)])]);
    await site.doorbell.idle();
    await redis.start(how);
    const pools = [hints([hint(1), hint(3), hint(4)])];
    const expected = ['job-1:1', 'job-3:1', 'job-4:1'];
    await sweepUntil(site, pools, async () => (await tokensIn(redis)).join() === expected.join());
    assert.deepEqual(await readAs(redis, 'c1'), expected);
  });

test('a Redis that is stopped for a while delays nobody and is used again afterwards', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  redis.pause();
  site.doorbell.publish(hint(1));
  site.doorbell.sweep([hints([hint(1)])]);
  await until(() => !site.connection.isUp);
  assert.match(site.connection.problems().join(), /^Redis does not answer/);
  redis.resume();
  await isUp(site.connection);
  await sweepUntil(site, [hints([hint(1)])], async () => (await tokensIn(redis)).length === 1);
  assert.deepEqual(site.connection.problems(), []);
  assert.deepEqual(await readAs(redis, 'c1'), ['job-1:1']);
});

test('a job that was being published when Redis died is heard afterwards', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  redis.pause();
  site.doorbell.publish(hint(1));
  // The command is sent in a later turn than the call.
  await new Promise((resolve) => setImmediate(resolve));
  await redis.kill();
  await until(() => !site.connection.isUp);
  await redis.start('empty');
  await sweepUntil(site, [hints([hint(1)])], async () => (await tokensIn(redis)).length === 1);
});

test('another brain goes on with the entries that there are, and clears those whose attempt is over', async (t) => {
  const redis = await testRedis(t);
  const before = await doorbellOn(t, { url: redis.url });
  await isUp(before.connection);
  for (const n of [1, 2, 3]) before.doorbell.publish(hint(n));
  await before.doorbell.idle();
  const entries = await redis.call('XRANGE', KEY, '-', '+');
  assert.deepEqual(await readAs(redis, 'c1', 'default', 1), ['job-1:1']);
  await before.connection.stop();
  const after = await doorbellOn(t, { url: redis.url });
  await isUp(after.connection);
  const pools = [hints([hint(2)], ['job-1:1'])];
  await sweepUntil(after, pools, async () => (await redis.call('XLEN', KEY)) === 2);
  assert.deepEqual(await redis.call('XRANGE', KEY, '-', '+'), (entries as unknown[]).slice(0, 2));
  after.doorbell.settled('default', 'job-1:1');
  await after.doorbell.idle();
  assert.deepEqual(await tokensIn(redis), ['job-2:1']);
});

test('an entry that a consumer has read and not claimed is heard by another; a held one is not', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url, claim_idle_ms: 100 });
  await isUp(site.connection);
  for (const n of [1, 2]) site.doorbell.publish(hint(n));
  await site.doorbell.idle();
  assert.deepEqual(await readAs(redis, 'dead'), ['job-1:1', 'job-2:1']);
  const heard: string[] = [];
  await sweepUntil(site, [hints([hint(1)], ['job-2:1'])], async () => {
    heard.push(...(await readAs(redis, 'alive')));
    return heard.length > 0;
  });
  assert.deepEqual(heard, ['job-1:1']);
  assert.deepEqual((await tokensIn(redis)).sort(), ['job-1:1', 'job-2:1']);
});

test('[NEWS-6] an entry that was read a moment ago is not taken from its reader', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  site.doorbell.publish(hint(1));
  await site.doorbell.idle();
  const entries = await redis.call('XRANGE', KEY, '-', '+');
  assert.deepEqual(await readAs(redis, 'c1'), ['job-1:1']);
  // The first sweep looks for what was read long ago.
  site.doorbell.sweep([hints([hint(1)])]);
  await site.doorbell.idle();
  assert.deepEqual(await readAs(redis, 'c2'), []);
  assert.deepEqual(await redis.call('XRANGE', KEY, '-', '+'), entries);
});

test('a group that somebody has removed is made anew from the beginning of the stream', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  site.doorbell.publish(hint(1));
  site.doorbell.sweep([hints([hint(1)])]);
  await site.doorbell.idle();
  await redis.call('XGROUP', 'DESTROY', KEY, 'cg:inference');
  site.doorbell.sweep([hints([hint(1)])]);
  await site.doorbell.idle();
  assert.deepEqual(await readAs(redis, 'c1'), ['job-1:1']);
});

test('what a group made anew at the end of the stream has passed over is heard all the same', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url, claim_idle_ms: 100 });
  await isUp(site.connection);
  site.doorbell.publish(hint(1));
  await site.doorbell.idle();
  await redis.call('XGROUP', 'DESTROY', KEY, 'cg:inference');
  await redis.call('XGROUP', 'CREATE', KEY, 'cg:inference', '$');
  assert.deepEqual(await readAs(redis, 'c1'), []);
  const heard: string[] = [];
  await sweepUntil(site, [hints([hint(1)])], async () => {
    heard.push(...(await readAs(redis, 'c1')));
    return heard.length > 0;
  });
  assert.deepEqual(heard, ['job-1:1']);
});

test('[NEWS-4] 100,000 foreign entries are moved to the DLQ piece by piece, and jobs are heard meanwhile', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  await fill(redis, KEY, 101_000, ['junk', 'x'.repeat(100), 'token', 'orchd_secret']);
  const before = await heapUsed();
  site.doorbell.publish(hint(1));
  await site.doorbell.idle();
  let length = (await redis.call('XLEN', KEY)) as number;
  assert.ok(length >= 100_000 && length < 100_500, `the stream is bounded: ${length}`);
  let sweeps = 0;
  const pools = [hints([hint(1)])];
  await sweepUntil(site, pools, async () => {
    const now = (await redis.call('XLEN', KEY)) as number;
    assert.ok(length - now <= 2000, `one sweep has removed ${length - now}`);
    length = now;
    if (sweeps++ === 10) {
      assert.ok((await heapUsed()) - before < 5 * 2 ** 20, 'memory stays flat');
      assert.ok((await tokensIn(redis)).includes('job-1:1'));
    }
    return now === 1;
  });
  assert.deepEqual(await tokensIn(redis), ['job-1:1']);
  const letters = (await redis.call('XLEN', 'stream:orchestrator:dlq')) as number;
  assert.ok(letters >= 10_000 && letters < 11_000, `${letters} are kept`);
  const { reason, stream, entry_id, entry } = (await deadLetters(redis))[0] ?? {};
  assert.deepEqual([reason, stream], ['it has no job_id, token and type', KEY]);
  assert.match(entry_id ?? '', /^\d+-\d+$/);
  assert.deepEqual(JSON.parse(entry ?? ''), { junk: 'x'.repeat(100), token: '[redacted]' });
});
