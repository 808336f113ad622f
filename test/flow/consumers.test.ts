/**
 * Consumers in each language with a client, as real processes, against a brain in this process: the same tests on the
 * embedded store and on a real MariaDB with a real Redis. `STORM=1`: a handler blocks its loop for a minute.
 */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { begun, type Language } from '../fakes/consumer-programs.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { proxyTo } from '../fakes/proxy.ts';
import { deadLetters, tokensIn, until as untilSo } from '../fakes/redis-kit.ts';
import { aMoment, EACH } from './consumer-kit.ts';
import { DEPLOYMENTS, type Deployment, deployed } from './deployments.ts';
import { within } from './flow-kit.ts';

/** True for every second request of this kind. */
function everyOther(path: RegExp): (request: { readonly url?: string | undefined }) => boolean {
  let count = 0;
  return ({ url = '' }) => path.test(url) && ++count % 2 === 0;
}

/** How long a handler blocks its loop; its lease is much shorter. */
const BLOCK_MS = process.env['STORM'] === '1' ? 60_000 : 9000;

const touch = (file: string): void => writeFileSync(file, '');

for (const where of DEPLOYMENTS) {
  test(`[NEWS-14] the tests of consumers run on ${where}, which is what it says`, (t) => isReal(t, where));
  for (const language of EACH) promises(where, language);
}

async function isReal(t: TestContext, where: Deployment): Promise<void> {
  const { site, redis, data } = await deployed(t, where);
  await site.call('POST', '/v2/consumers', { pool: 'p', slots: 1, types: ['work'], listens: 'redis' });
  await site.submit('a', {});
  if (where === 'the embedded store') {
    assert.equal(redis, undefined);
    return assert.ok(existsSync(join(data, 'log')), 'the job is in the log of its folder');
  }
  assert.ok(redis);
  assert.match(String(await redis.call('INFO', 'server')), /redis_version:[7-9]/);
  await untilSo(async () => (await tokensIn(redis, 'p')).join() === 'a:1');
  const sql = await connector(data)();
  const [row] = await sql.query<{ version: string; status: string }>(
    "SELECT VERSION() AS version, status FROM orchestrator_jobs WHERE job_id = 'a'",
  );
  await sql.close();
  assert.match(row?.version ?? '', /MariaDB/);
  assert.equal(row?.status, 'claimed');
}

/** What holds of consumers in each language, wherever the brain keeps its jobs. */
function promises(where: Deployment, language: Language): void {
  test(`[NEWS-14] ${language} on ${where}: a job ends as its handler does, with its result, its error and its tokens`, async (t) => {
    const { site } = await deployed(t, where);
    const consumer = site.start(language);
    await site.submit('good', { do: 'note' });
    await site.submit('bad', { do: 'fail' });
    await site.submit('said', { do: 'say', words: ['one ', 'two'] });
    await site.submit('huge', { do: 'large', chars: 18 * 2 ** 20 });
    assert.deepEqual((await site.ended('good')).result, { pid: consumer.child.pid });
    const { state, error } = await site.ended('bad');
    assert.deepEqual([state, error?.reason, error?.message], ['dead', 'NO_LUCK', 'no luck']);
    assert.partialDeepStrictEqual((await site.ended('said')).attempts, [
      { usage: { prompt_tokens: 3, completion_tokens: 4 } },
    ] as never);
    const huge = await site.ended('huge');
    assert.equal(huge.state, 'dead');
    assert.match(huge.error?.message ?? '', /the result was refused/);
  });

  test(`[NEWS-14] ${language} on ${where}: those who follow a job hear what its handler says, once and in order`, async (t) => {
    const { site, brain } = await deployed(t, where);
    const words = Array.from({ length: 50 }, (_, n) => `${n} `);
    await site.submit('said', { do: 'say', words });
    const heard = fetch(`${brain.url}/v2/tasks/said/events`).then((answer) => answer.text());
    const url = await proxyTo(t, brain.url, () => undefined, everyOther(/\/events$/));
    site.start(language, { url });
    const said = [...(await within(heard)).matchAll(/event: token\ndata: (.*)/g)];
    assert.deepEqual(
      said.map(([, data]) => (JSON.parse(data ?? '') as { t: string }).t),
      words,
    );
  });

  test(`[NEWS-14] ${language} on ${where}: no job is lost or run twice when answers of the brain are lost`, async (t) => {
    const { site, brain } = await deployed(t, where);
    const url = await proxyTo(t, brain.url, () => undefined, everyOther(/consumers/));
    const ids = Array.from({ length: 100 }, (_, n) => `job${n}`);
    for (const id of ids) await site.submit(id, { do: 'note' });
    const consumer = site.start(language, { url, leaseTtlMs: 60_000 });
    for (const id of ids) {
      const { state, attempts } = await site.ended(id);
      assert.deepEqual([state, attempts.length], ['succeeded', 1], id);
    }
    assert.deepEqual(begun(site.ledger).sort(), ids.map((id) => `${id}:1`).sort());
    assert.equal(consumer.child.exitCode, null);
  });

  test(`[NEWS-14] ${language} on ${where}: a result that the brain takes long to answer keeps no free slot from work`, async (t) => {
    const { site, brain } = await deployed(t, where);
    const answers = Promise.withResolvers<void>();
    const url = await proxyTo(
      t,
      brain.url,
      () => undefined,
      () => false,
      ({ url: path = '' }) => (path.endsWith('/results') ? answers.promise : undefined),
    );
    const consumer = site.start(language, { url, slots: 3, leaseTtlMs: 60_000 });
    const ids = ['first', 'second', 'third'];
    for (const id of ids) {
      await site.submit(id, { do: 'note' });
      await within(consumer.saw(new RegExp(`ended ${id}`)), 20_000);
    }
    answers.resolve();
    for (const id of ids) assert.equal((await site.ended(id)).state, 'succeeded');
  });

  test(`[NEWS-14] ${language} on ${where}: a job that is cancelled is stopped, and one that runs is finished at SIGTERM`, async (t) => {
    const { site } = await deployed(t, where);
    const consumer = site.start(language, { slots: 2, leaseTtlMs: 1500 });
    const until = join(site.folder, 'go');
    await site.submit('cancelled', { do: 'hold', until: join(site.folder, 'never') });
    await site.submit('last', { do: 'hold', until });
    await consumer.saw(/began last/);
    await consumer.saw(/began cancelled/);
    await site.call('POST', '/v2/tasks/cancelled/cancel');
    await consumer.saw(/stopped cancelled/);
    assert.equal((await site.ended('cancelled')).state, 'cancelled');
    await site.submit('waiting', { do: 'note' });
    await site.ended('waiting');
    consumer.signal('SIGTERM');
    touch(until);
    assert.equal((await site.ended('last')).state, 'succeeded');
    assert.equal(await within(consumer.ended), 0);
    assert.deepEqual(await site.consumers(), []);
  });

  test(`[NEWS-14] ${language} on ${where}: a consumer that an operator drains finishes what it holds, and ends`, async (t) => {
    const { site } = await deployed(t, where);
    const consumer = site.start(language, { leaseTtlMs: 1500 });
    const until = join(site.folder, 'go');
    await site.submit('held', { do: 'hold', until });
    await consumer.saw(/began held/);
    const name = (await site.consumers())[0]?.name;
    await site.call('POST', `/v2/consumers/p/${name}/drain`);
    await site.submit('later', { do: 'note' });
    touch(until);
    assert.equal(await within(consumer.ended), 0);
    assert.equal((await site.job('held')).state, 'succeeded');
    assert.equal((await site.job('later')).state, 'queued');
  });

  test(`[NEWS-14] ${language} on ${where}: a handler that blocks its loop for many leases is neither called dead nor doubled`, async (t) => {
    const { site } = await deployed(t, where);
    const consumer = site.start(language, { slots: 1, leaseTtlMs: 4000 });
    await site.submit('long', { do: 'block', ms: BLOCK_MS });
    await consumer.saw(/began long/);
    const states = new Set<string>();
    while ((await site.job('long')).state !== 'succeeded') {
      for (const { state } of await site.consumers()) states.add(state);
      await aMoment();
    }
    assert.deepEqual([...states], ['live']);
    assert.equal((await site.job('long')).attempts.length, 1);
    assert.deepEqual(begun(site.ledger), ['long:1']);
  });

  test(`[NEWS-14] ${language} on ${where}: a late result of a consumer that was stopped is refused, and noted`, async (t) => {
    const { site, brain } = await deployed(t, where);
    let hearsNothing = false;
    const url = await proxyTo(t, brain.url, ({ url = '' }) =>
      hearsNothing && url.endsWith('/heartbeat') ? 'no heartbeats now' : undefined,
    );
    const first = site.start(language, { url, slots: 1, leaseTtlMs: 1000 });
    const until = join(site.folder, 'go');
    await site.submit('job', { do: 'hold', until });
    await first.saw(/began job/);
    first.signal('SIGSTOP');
    hearsNothing = true;
    const second = site.start(language, { slots: 1, leaseTtlMs: 15_000 });
    await second.saw(/began job:2/);
    touch(until);
    const { result } = await site.ended('job');
    assert.deepEqual(result, { pid: second.child.pid });
    first.signal('SIGCONT');
    while (!engineOf(brain.orchestrator).state.brain?.fenced) await aMoment();
    assert.equal(engineOf(brain.orchestrator).state.brain?.fenced?.token, 'job:1');
    assert.deepEqual((await site.job('job')).result, result);
    // It goes on with other work, although no heartbeat has told it what it has lost.
    second.signal('SIGTERM');
    await within(second.ended);
    await site.submit('next', { do: 'note' });
    assert.deepEqual((await site.ended('next')).result, { pid: first.child.pid });
  });

  test(`[NEWS-14] ${language} on ${where}: a job that kills its consumers is dead after its tries, and done when it is redriven`, async (t) => {
    const { site, redis } = await deployed(t, where);
    const unless = join(site.folder, 'mended');
    await site.submit('deadly', { do: 'die', unless }, { max_tries: 2 });
    for (const attempt of [1, 2]) {
      const consumer = site.start(language, { slots: 1, leaseTtlMs: 1000 });
      await consumer.saw(new RegExp(`began deadly:${attempt}`));
      assert.equal(await within(consumer.ended), null);
    }
    assert.equal((await site.ended('deadly')).state, 'dead');
    if (redis)
      await untilSo(async () => (await deadLetters(redis)).some(({ job_id }) => job_id === 'deadly'));
    touch(unless);
    await site.call('POST', '/v2/tasks/deadly/redrive');
    site.start(language, { slots: 1 });
    assert.equal((await site.jobWhen('deadly', ({ state }) => state === 'succeeded')).state, 'succeeded');
  });
}
