/** What holds of jobs and their messages in Redis, on every store that lasts. */
import assert from 'node:assert/strict';
import { deadLetters, readAs, tokensIn, until } from '../fakes/redis-kit.ts';
import type { ConsumerSite } from './consumer-kit.ts';
import { deployedOnRedis } from './deployments.ts';
import { LASTING, onStores } from './flow-kit.ts';
import { holdable } from './holding.ts';

const KEY = 'stream:orchestrator:inference_jobs:p';
const LONG_MS = 600_000;

/** A consumer that does what the test says, and nothing by itself. */
class Puppet {
  readonly #site: ConsumerSite;
  readonly #path: string;
  #claims = 0;

  private constructor(site: ConsumerSite, id: string) {
    this.#site = site;
    this.#path = `/v2/consumers/${id}`;
  }

  static async of(site: ConsumerSite, leaseMs = LONG_MS): Promise<Puppet> {
    const body = { pool: 'p', slots: 4, types: ['work'], listens: 'redis', lease_ttl_ms: leaseMs };
    const { consumer_id } = await site.call<{ consumer_id: string }>('POST', '/v2/consumers', body);
    return new Puppet(site, consumer_id);
  }

  async claim(...tokens: readonly string[]): Promise<string[]> {
    const body = { claim: ++this.#claims, max: 4, tokens };
    type Answer = { jobs: readonly { job_id: string; attempt: number }[] };
    const { jobs } = await this.#site.call<Answer>('POST', `${this.#path}/claim`, body);
    return jobs.map(({ job_id, attempt }) => `${job_id}:${attempt}`);
  }

  report(token: string): Promise<{ results: readonly { recorded?: true }[] }> {
    const results = [{ token, ok: true, result: 'done' }];
    return this.#site.call('POST', `${this.#path}/results`, { results });
  }
}

interface Row {
  readonly status: string;
  readonly attempts: number;
  readonly last_error: string | null;
}

const rowOf = (site: ConsumerSite, id: string): Promise<Row> => site.call('GET', `/jobs/${id}`);
const submit = (site: ConsumerSite, job_id: string, more: object = {}): Promise<Row> =>
  site.call('POST', '/jobs/submit', { job_id, type: 'work', payload: { n: 1 }, ...more });

onStores(
  '[NEWS-5] the row of a job and its message in Redis are both there, or a sweep makes it so',
  LASTING,
  async (t, data) => {
    const { site, redis } = await deployedOnRedis(t, data);
    await Puppet.of(site);
    const messagesAre = (...tokens: readonly string[]): Promise<void> =>
      until(async () => (await tokensIn(redis, 'p').catch(() => [])).sort().join() === tokens.join());
    await submit(site, 'a');
    await messagesAre('a:1');
    await redis.call('DEL', KEY);
    await messagesAre('a:1');
    await redis.kill();
    await submit(site, 'b');
    assert.partialDeepStrictEqual(await rowOf(site, 'b'), { status: 'claimed', attempts: 1 });
    await redis.start('empty');
    await messagesAre('a:1', 'b:1');
    // A message of a job that has no row.
    await redis.call('XADD', KEY, '*', 'job_id', 'ghost', 'token', 'ghost:1', 'type', 'work');
    await messagesAre('a:1', 'b:1');
    await assert.rejects(rowOf(site, 'ghost'), /NOT_FOUND/);
  },
);

onStores(
  '[NEWS-5] a message of a job that has ended, or that another consumer holds, starts nothing',
  LASTING,
  async (t, data) => {
    const { site, redis } = await deployedOnRedis(t, data);
    const [ann, bob] = [await Puppet.of(site), await Puppet.of(site)];
    await submit(site, 'a');
    await submit(site, 'a');
    await assert.rejects(submit(site, 'a', { payload: { n: 2 } }), /JOB_CONFLICT/);
    await until(async () => (await tokensIn(redis, 'p')).length === 1);
    assert.deepEqual(await ann.claim('a:1'), ['a:1']);
    assert.deepEqual(await bob.claim('a:1'), [], 'another consumer holds it');
    for (const _ of ['first', 'again'])
      assert.deepEqual((await ann.report('a:1')).results, [{ token: 'a:1', recorded: true }]);
    await redis.call('XADD', KEY, '*', 'job_id', 'a', 'token', 'a:1', 'type', 'work');
    assert.deepEqual(await bob.claim('a:1', 'a:2'), [], 'it has ended');
    await submit(site, 'a');
    assert.deepEqual(await bob.claim(), []);
    assert.partialDeepStrictEqual(await rowOf(site, 'a'), { status: 'done', attempts: 1, last_error: null });
    await until(async () => (await tokensIn(redis, 'p')).length === 0);
  },
);

onStores('a claim is answered only after its commit', LASTING, async (t, data) => {
  const held = holdable(data);
  const { site, redis } = await deployedOnRedis(t, data, held.env);
  const ann = await Puppet.of(site);
  await submit(site, 'a');
  await until(async () => (await tokensIn(redis, 'p')).length === 1);
  await held.hold();
  let isAnswered = false;
  const claimed = ann.claim('a:1').finally(() => {
    isAnswered = true;
  });
  try {
    await held.commitWaits();
    // An answer that was sent by now arrives before those to later requests.
    for (let n = 0; n < 5; n++) await site.call('GET', '/health');
    assert.equal(isAnswered, false, 'it is answered before its commit');
  } finally {
    await held.release();
  }
  assert.deepEqual(await claimed, ['a:1']);
});

onStores(
  '[NEWS-4] the entry of a job is acknowledged and deleted only after its commit',
  LASTING,
  async (t, data) => {
    const held = holdable(data);
    const { site, redis, doorbell } = await deployedOnRedis(t, data, held.env);
    const ann = await Puppet.of(site);
    await submit(site, 'a');
    await until(async () => (await tokensIn(redis, 'p')).length === 1);
    assert.deepEqual(await readAs(redis, 'ann', 'p'), ['a:1']);
    assert.deepEqual(await ann.claim('a:1'), ['a:1']);
    await held.hold();
    const reported = ann.report('a:1');
    try {
      await held.commitWaits();
      await doorbell.idle();
      assert.deepEqual(await tokensIn(redis, 'p'), ['a:1'], 'it is deleted before its commit');
      const [pending] = (await redis.call('XPENDING', KEY, 'cg:inference:p')) as readonly unknown[];
      assert.equal(pending, 1, 'it is acknowledged before its commit');
    } finally {
      await held.release();
    }
    await reported;
    await until(async () => (await tokensIn(redis, 'p')).length === 0);
  },
);

onStores(
  '[NEWS-6] a message that nobody claims is heard again, a job that its consumers leave is tried again, and at last it is in the DLQ, listed and redriven',
  LASTING,
  async (t, data) => {
    const { site, redis } = await deployedOnRedis(t, data);
    const keeper = await Puppet.of(site);
    await site.submit('x', { n: 1 }, { max_tries: 2 });
    const hears = async (name: string, token: string): Promise<void> => {
      await until(async () => (await readAs(redis, name, 'p')).includes(token));
    };
    await hears('dead', 'x:1');
    await hears('other', 'x:1');
    assert.partialDeepStrictEqual(await rowOf(site, 'x'), { status: 'claimed', attempts: 1 });
    for (const token of ['x:1', 'x:2']) {
      const silent = await Puppet.of(site, 1000);
      await until(async () => (await silent.claim(token)).length === 1);
    }
    await until(async () => (await deadLetters(redis)).length === 1);
    const [letter] = await deadLetters(redis);
    assert.partialDeepStrictEqual(letter, { job_id: 'x', origin_id: 'x', attempts: '2' });
    assert.match(letter?.['last_error'] ?? '', /^UNKNOWN_OUTCOME: .*has fallen silent/);
    const row = await rowOf(site, 'x');
    assert.deepEqual([row.status, row.attempts, row.last_error], ['dead_letter', 2, letter?.['last_error']]);
    const { jobs } = await site.call<{ jobs: { job_id: string }[] }>('GET', '/v2/tasks?state=dead');
    assert.deepEqual(
      jobs.map(({ job_id }) => job_id),
      ['x'],
    );
    await site.call('POST', '/v2/tasks/x/redrive');
    assert.notEqual((await site.job('x')).state, 'dead');
    await hears('keeper', 'x:3');
    assert.deepEqual(await keeper.claim('x:3'), ['x:3']);
    await keeper.report('x:3');
    assert.partialDeepStrictEqual(await rowOf(site, 'x'), { status: 'done', attempts: 3 });
  },
);
