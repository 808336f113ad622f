/** Jobs, events and orders that other programs leave in Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineOf } from '../fakes/engine-of.ts';
import { deadLetters, fill, type OwnRedis, testRedis, until } from '../fakes/redis-kit.ts';
import { LASTING, onStores, within } from './flow-kit.ts';
import { holdable } from './holding.ts';
import { StreamSite } from './redis-kit.ts';
import { serve, testFolder } from './server-process.ts';

const EVENTS = [{ event: 'memory.ingest_article', job: { type: 'work', tags: { kind: 'archive' } } }];
const STREAM = 'stream:orchestrator:ingest_events';
const CONTROL = 'stream:orchestrator:control';

onStores('jobs and events of a stream become jobs, once for each entry', LASTING, async (t, data) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, data);
  await site.start({ events: EVENTS });
  const made = await site.add('ingest_events', 'job', '{"type":"work","payload":{"n":1}}');
  await site.add('ingest_events', 'job', '{"type":"work","payload":2,"job_id":"mine"}');
  const event = await site.add('ingest_events', 'event', 'memory.ingest_article', 'payload', '{"id":7}');
  await until(async () => (await site.length('ingest_events')) === 0);
  const job = await site.orchestrator.wait(`ingest-${made}`);
  assert.deepEqual([job.state, job.result, job.tags], ['succeeded', { of: { n: 1 } }, { redis_entry: made }]);
  assert.deepEqual((await site.orchestrator.wait('mine')).result, { of: 2 });
  const archive = await site.orchestrator.wait(`ingest-${event}`);
  assert.deepEqual(
    [archive.result, archive.tags],
    [{ of: { id: 7 } }, { kind: 'archive', redis_entry: event }],
  );
  // The same entry again, as after a failover without the tail.
  await redis.call('DEL', STREAM);
  await redis.call('XADD', STREAM, String(made), 'job', '{"type":"work","payload":{"n":1}}');
  await until(
    async () => (await redis.call('EXISTS', STREAM)) === 1 && (await site.length('ingest_events')) === 0,
  );
  assert.equal((await site.orchestrator.list()).jobs.length, 3);
  assert.deepEqual(await deadLetters(redis), []);
  // Another job under the id of an entry that there was, as after a FLUSHALL where ids begin anew.
  await redis.call('DEL', STREAM);
  await redis.call('XADD', STREAM, String(made), 'job', '{"type":"work","payload":"another"}');
  await until(async () => (await deadLetters(redis)).length === 1);
  assert.match((await deadLetters(redis))[0]?.['reason'] ?? '', /^JOB_CONFLICT: /);
});

onStores('[NEWS-4] an entry is acknowledged and deleted only after its commit', LASTING, async (t, data) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, data);
  const held = holdable(data);
  const token = site.token('operate');
  await site.start({ control: true }, held.env);
  await site.dieAndBeMirrored('dead');
  for (const [stream, ...fields] of [
    ['ingest_events', 'job', '{"type":"work","job_id":"late"}'],
    ['control', 'order', 'redrive_job', 'job_id', 'dead', 'token', token],
  ] as const) {
    await held.hold();
    try {
      await site.add(stream, ...fields);
      await held.commitWaits();
      assert.equal(await site.length(stream), 1, 'it is deleted before its commit');
      assert.equal(await site.pending(stream), 1, 'it is acknowledged before its commit');
    } finally {
      await held.release();
    }
    await until(async () => (await site.length(stream)) === 0);
    assert.equal(await site.pending(stream), 0, 'it is acknowledged with its end');
    assert.equal((await site.orchestrator.wait('late')).state, 'succeeded');
  }
  assert.equal((await site.orchestrator.wait('dead')).attempts.length, 2);
});

onStores('what a brain takes whose commit fails stays for its successor', LASTING, async (t, data) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, data);
  const token = site.token('operate');
  const orders = {
    ingest_events: ['job', '{"type":"work","job_id":"late"}'],
    control: ['order', 'redrive_job', 'job_id', 'dead', 'token', token],
  } as const;
  for (const stream of ['ingest_events', 'control'] as const) {
    const held = holdable(data);
    await site.start({ control: true }, held.env);
    if (stream === 'control') await site.dieAndBeMirrored('dead');
    await held.hold();
    await site.add(stream, ...orders[stream]);
    await held.commitWaits();
    await held.refuse();
    await assert.rejects(site.orchestrator.wait('late').then(() => site.orchestrator.submit({})));
    // It is read again before anything else.
    const reads = await site.reads();
    await until(async () => (await site.reads()) > reads + 1);
    assert.equal(await site.length(stream), 1, 'it is not deleted');
    await site.stop();
    await site.start({ control: true });
    await until(async () => (await site.length(stream)) === 0);
    assert.equal((await site.orchestrator.wait('late')).state, 'succeeded');
    // The log of a broken disk may have the order all the same: then it is carried out again.
    if (stream === 'control') assert.ok((await site.orchestrator.wait('dead')).attempts.length >= 2);
    await site.stop();
  }
  assert.deepEqual(
    (await deadLetters(redis)).filter(({ stream }) => stream !== undefined),
    [],
  );
});

const STRANDED: Readonly<Record<string, (redis: OwnRedis, key: string) => Promise<unknown>>> = {
  'another name of the group has read': (redis, key) =>
    redis.call('XREADGROUP', 'GROUP', 'cg:orchestrator', 'somebody', 'STREAMS', key, '>'),
  'a moved group has passed': (redis, key) => redis.call('XGROUP', 'SETID', key, 'cg:orchestrator', '$'),
};
for (const [how, strand] of Object.entries(STRANDED))
  test(`an entry that ${how} is taken`, async (t) => {
    const redis = await testRedis(t);
    const site = new StreamSite(t, redis, 'memory');
    const token = site.token('operate');
    const settings = { control: true, claim_idle_ms: 200 };
    await site.start(settings);
    await until(async () => (await site.groups()) === 2);
    await site.stop();
    await site.add('ingest_events', 'job', '{"type":"work","job_id":"a"}');
    await site.add('control', 'order', 'reconcile', 'token', token);
    for (const key of [STREAM, CONTROL]) await strand(redis, key);
    await site.start(settings);
    const before = site.orchestrator.reconciliation.reports.length;
    for (const stream of ['ingest_events', 'control'] as const)
      await until(async () => (await site.length(stream)) === 0);
    assert.equal((await site.orchestrator.wait('a')).state, 'succeeded');
    assert.equal(site.orchestrator.reconciliation.reports.length, before + 1);
    assert.deepEqual(await deadLetters(redis), []);
  });

test('an entry that another name of the group has read a moment ago is left to it', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"another"}');
  await redis.call('XGROUP', 'CREATE', STREAM, 'cg:orchestrator', '0');
  await STRANDED['another name of the group has read']?.(redis, STREAM);
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"own"}');
  await site.start();
  await until(async () => (await site.length('ingest_events')) === 1);
  const { jobs } = await site.orchestrator.list();
  assert.deepEqual(
    jobs.map(({ job_id }) => job_id),
    ['own'],
  );
});

test('an order that a full disk allows is carried out, although jobs and orders before it have to wait', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  const token = site.token('operate');
  await site.start({ control: true });
  await site.die('dead');
  await site.orchestrator.submit({ type: 'nobody', job_id: 'queued', wait_for_backend: true });
  const { state } = engineOf(site.orchestrator);
  state.full = true;
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"waits"}');
  await until(async () => (await site.pending('ingest_events')) === 1);
  await site.add('control', 'order', 'redrive_job', 'job_id', 'dead', 'token', token);
  await until(async () => (await site.pending('control')) === 1);
  await site.add('control', 'order', 'cancel_job', 'job_id', 'queued', 'token', token);
  await within(until(async () => (await site.orchestrator.get('queued')).state === 'cancelled'));
  assert.deepEqual([await site.length('ingest_events'), await site.length('control')], [1, 1]);
  state.full = false;
  for (const stream of ['ingest_events', 'control'] as const)
    await within(until(async () => (await site.length(stream)) === 0));
  assert.equal((await site.orchestrator.wait('waits')).state, 'succeeded');
  assert.equal((await site.orchestrator.wait('dead')).attempts.length, 2);
});

test('an entry that somebody deletes while it waits is no entry that could not be used', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  await site.start();
  engineOf(site.orchestrator).state.full = true;
  const id = await site.add('ingest_events', 'job', '{"type":"work"}');
  await until(async () => (await site.pending('ingest_events')) === 1);
  await redis.call('XDEL', STREAM, String(id));
  await until(async () => (await site.pending('ingest_events')) === 0);
  assert.deepEqual(await deadLetters(redis), []);
});

test('what was there before the group of the brain is taken', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"early"}');
  await site.start();
  await until(async () => ((await redis.call('XINFO', 'GROUPS', STREAM)) as unknown[]).length > 0);
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"next"}');
  await until(async () => (await site.orchestrator.list()).jobs.some(({ job_id }) => job_id === 'next'));
  const ids = (await site.orchestrator.list()).jobs.map(({ job_id }) => job_id);
  assert.ok(ids.includes('early'), 'a job that was there before the group is missing');
});

test('entries that cannot be used go to the DLQ with the reason, and those after them are taken', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  await site.start();
  const bad = ['job', '{"type":'];
  for (const fields of [
    ['nothing', 'useful'],
    bad,
    ['job', '[]'],
    ['job', '{"type":"work","no_such_field":1}'],
    ['job', '{"type":"nobody-runs-this"}'],
    ['event', 'unknown', 'payload', '{}'],
    ['job', `{"type":"work","payload":"${'x'.repeat(2 ** 20)}"}`],
    ['job', '{"type":"work","tags":3}'],
  ])
    await site.add('ingest_events', ...fields);
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"good"}');
  await site.orchestrator.wait('good').catch(() => undefined);
  await until(async () => (await site.length('ingest_events')) === 0);
  assert.equal((await site.orchestrator.wait('good')).state, 'succeeded');
  const letters = await deadLetters(redis);
  const codes = letters.map(({ reason = '' }) => reason.split(':')[0]);
  assert.deepEqual(codes.length, 8);
  assert.ok(
    codes.every((code) => /^[A-Z_]+$/.test(code ?? '')),
    codes.join(),
  );
  assert.ok(letters.every(({ stream, entry = '' }) => stream === STREAM && entry.length < 2000));
  assert.equal((await site.orchestrator.list()).jobs.length, 1);
});

test('an entry that cannot be used stays until the DLQ has a note of it', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  await redis.call('SET', 'stream:orchestrator:dlq', 'no stream');
  await site.start();
  await site.add('ingest_events', 'nothing', 'useful');
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"good"}');
  await until(async () => (await site.length('ingest_events')) === 1);
  assert.equal((await site.orchestrator.wait('good')).state, 'succeeded');
  await redis.call('DEL', 'stream:orchestrator:dlq');
  await until(async () => (await site.length('ingest_events')) === 0);
  assert.deepEqual(
    (await deadLetters(redis)).map(({ entry }) => entry),
    ['{"nothing":"useful"}'],
  );
});

test('orders need a token whose role allows them, and end as over HTTP', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  const operator = site.token('operate');
  const reader = site.token('read');
  const stranger = site.token('admin', 'other');
  await site.start({ control: true });
  await site.die('lost');
  const before = site.orchestrator.reconciliation.reports.length;
  await site.add('control', 'order', 'reconcile', 'token', operator);
  await site.add('control', 'order', 'redrive_job', 'token', operator, 'job_id', 'lost');
  await until(async () => (await site.length('control')) === 0);
  assert.equal(site.orchestrator.reconciliation.reports.length, before + 1);
  await until(async () => (await site.orchestrator.wait('lost')).attempts.length === 2);
  const refused = [
    ['order', 'reconcile'],
    ['order', 'reconcile', 'token', 'orchd_00000000_'.padEnd(79, '0')],
    ['order', 'reconcile', 'token', reader],
    ['order', 'reconcile', 'token', stranger],
    ['order', 'drain_pool', 'token', operator, 'pool', 'p'],
    ['order', 'redrive_job', 'token', stranger, 'job_id', 'lost'],
    ['order', 'no_such_order', 'token', operator],
    ['order', 'redrive_job', 'token', operator],
    ['order', operator],
    [operator, 'token'],
  ];
  for (const fields of refused) await site.add('control', ...fields);
  await until(async () => (await site.length('control')) === 0);
  const letters = (await deadLetters(redis)).filter(({ stream }) => stream === 'stream:orchestrator:control');
  assert.deepEqual(
    letters.map(({ reason = '' }) => reason.split(':')[0]),
    [
      'UNAUTHORIZED',
      'UNAUTHORIZED',
      'FORBIDDEN',
      'FORBIDDEN',
      'FORBIDDEN',
      'NOT_FOUND',
      'INVALID_PARAMS',
      'INVALID_PARAMS',
      'UNAUTHORIZED',
      'UNAUTHORIZED',
    ],
  );
  for (const token of [reader, operator])
    assert.ok(!JSON.stringify(letters).includes(token.slice(-64)), 'no token is shown');
  assert.equal(site.orchestrator.reconciliation.reports.length, before + 1);
});

test('without control: true nobody reads the stream of orders', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  const operator = site.token('operate');
  await site.start();
  await site.add('control', 'order', 'reconcile', 'token', operator);
  await site.add('ingest_events', 'job', '{"type":"work","job_id":"good"}');
  await until(async () => (await site.length('ingest_events')) === 0);
  assert.equal(await site.length('control'), 1);
});

test('a full queue refuses no entry: it is taken when there is room', async (t) => {
  const redis = await testRedis(t);
  const data = testFolder(t);
  const config = {
    redis: { url: redis.url },
    orchestrator: { queue_capacity: 3 },
    backends: { commands: [{ name: 'c', slots: 1, types: { work: { argv: ['sleep', '0.05'] } } }] },
  };
  const server = await serve(t, { data, config });
  await fill(redis, STREAM, 20, ['job', '{"type":"work"}']);
  await until(async () => (await redis.call('XLEN', STREAM)) === 0);
  const answer = await fetch(`${server.url}/v2/tasks?limit=100`);
  const { jobs } = (await answer.json()) as { jobs: unknown[] };
  assert.equal(jobs.length, 20);
  assert.deepEqual(await deadLetters(redis), []);
});

test('a brain killed again and again takes each entry once', async (t) => {
  const redis = await testRedis(t);
  const data = testFolder(t);
  const config = {
    redis: { url: redis.url },
    backends: { commands: [{ name: 'c', slots: 4, types: { work: { argv: ['true'] } } }] },
  };
  let server = await serve(t, { data, config });
  for (const _ of [1, 2, 3]) {
    const filled = fill(redis, STREAM, 300, ['job', '{"type":"work"}']);
    await until(
      async () => Number(await redis.call('XINFO', 'STREAM', STREAM).then(entriesAdded, () => 0)) > 0,
    );
    await server.kill();
    await filled;
    server = await serve(t, { data, config });
  }
  await until(async () => (await redis.call('XLEN', STREAM)) === 0);
  const ids = new Set<string>();
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const page = await fetch(`${server.url}/v2/tasks?limit=500${cursor === '' ? '' : `&cursor=${cursor}`}`);
    const body = (await page.json()) as { jobs: { job_id: string }[]; cursor?: string };
    for (const { job_id } of body.jobs) ids.add(job_id);
    cursor = body.cursor;
  }
  assert.equal(ids.size, 900);
  assert.deepEqual(await deadLetters(redis), []);
});

const entriesAdded = (reply: unknown): number => {
  const flat = reply as readonly unknown[];
  return Number(flat[flat.indexOf('entries-added') + 1]);
};

test('after a FLUSHALL and a restart of Redis, what is added then is taken', async (t) => {
  const redis = await testRedis(t);
  const site = new StreamSite(t, redis, 'memory');
  await site.start();
  for (const [round, disturb] of [
    async () => void (await redis.call('FLUSHALL')),
    async () => {
      await redis.kill();
      await redis.start('empty');
    },
  ].entries()) {
    await disturb();
    await site.add('ingest_events', 'job', `{"type":"work","job_id":"round-${round}"}`);
    await until(async () => (await site.length('ingest_events')) === 0);
    assert.equal((await site.orchestrator.wait(`round-${round}`)).state, 'succeeded');
  }
});
