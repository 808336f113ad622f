/**
 * Deaths in the middle of streams: of the brain, of the pool manager, of both, and of the node that leads. The
 * workers outlive them all, so whatever they had begun goes on, is heard to its end, and has run once.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { atEnd } from '../fakes/pool-kit.ts';
import { ToldUpstream } from '../fakes/told-upstream.ts';
import { type ServerProcess, serve } from './server-process.ts';
import { Client, eventually, type Follow } from './site-client.ts';
import { endsOf, poolProcess, QUICK, Site } from './site-kit.ts';

let database: Promise<TestServer> | undefined;
after(async () => (await database)?.stop());

async function mariadb(): Promise<object> {
  database ??= testMariaDb();
  return { store: 'mariadb', mariadb: { url: await (await database).database() } };
}

const MODELS = ['one', 'two', 'three'];
const words = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, at) => `w${from + at} `);

/** Jobs that are followed over deaths: each with the worker of its own model, and all that was heard of it. */
class Streams {
  readonly upstream: ToldUpstream;
  readonly jobs: string[] = [];
  readonly #heard: string[] = [];
  readonly #ids: string[][] = [];
  #follows: Follow[] = [];

  constructor(upstream: ToldUpstream) {
    this.upstream = upstream;
  }

  async begin(client: Client): Promise<void> {
    for (const model of MODELS) {
      await client.register(model, { model_ref: `openai:${model}` });
      this.jobs.push(await client.submit({ model, prompt: model }));
      this.#heard.push('');
      this.#ids.push([]);
    }
    await this.resume(client);
  }

  /** Comes back with the id of the last event that each had. */
  async resume(client: Client): Promise<void> {
    const from = this.jobs.map((_, at) => this.#follows[at]?.lastId ?? this.#ids[at]?.at(-1));
    const opened = this.jobs.map((job, at) =>
      eventually(`${job} is followed`, () => client.follow(job, from[at])),
    );
    this.#follows = await Promise.all(opened);
  }

  say(from: number, to: number): Promise<unknown> {
    return Promise.all(MODELS.map((model) => this.upstream.say(model, ...words(from, to))));
  }

  /** Each has heard everything up to this word. */
  async hear(to: number): Promise<void> {
    const wanted = words(0, to).join('');
    for (const [at, follow] of this.#follows.entries()) {
      await follow.until(`word ${to}`, ({ text }) => (this.#heard[at] + text).length >= wanted.length);
      assert.equal(this.#heard[at] + follow.text, wanted, 'no gap, no repeat');
    }
  }

  /** The line to the brain is dead: what came by it counts, and nothing else. */
  async cut(): Promise<void> {
    for (const [at, follow] of this.#follows.entries()) {
      await follow.closed();
      this.#heard[at] += follow.text;
      this.#ids[at]?.push(...follow.events.flatMap(({ id }) => (id === '' ? [] : [id])));
    }
  }

  /** All have ended well, by the one attempt that there was. */
  async endedOnce(client: Client, text: string): Promise<void> {
    for (const [at, follow] of this.#follows.entries()) {
      assert.equal((await follow.end()).event, 'end');
      assert.equal(this.#heard[at] + follow.text, text, 'no gap, no repeat');
      assert.ok(!follow.events.some(({ event }) => event === 'reset'));
      const ids = [...(this.#ids[at] ?? []), ...follow.events.flatMap(({ id }) => (id === '' ? [] : [id]))];
      assert.equal(new Set(ids).size, ids.length, 'no event came twice');
      const job = await client.becomes(this.jobs[at]!, 'succeeded');
      assert.equal((job.result as { text: string }).text, text);
      assert.deepEqual(
        job.attempts.map(({ outcome }) => outcome),
        ['succeeded'],
      );
      assert.equal(this.upstream.asked(MODELS[at]!), 1, 'its engine was asked once');
    }
  }
}

async function upstreamOf(t: TestContext): Promise<{ streams: Streams; url: string }> {
  const upstream = new ToldUpstream();
  atEnd(t, () => upstream.close());
  return { streams: new Streams(upstream), url: await upstream.listen() };
}

async function survives(t: TestContext, store: object): Promise<void> {
  const { streams, url } = await upstreamOf(t);
  const site = await Site.start(endsOf(t), { config: { ...QUICK, ...store }, pool: Site.told(url) });
  const { client } = site;
  const again = { port: site.brain.port };
  const workers = async (): Promise<string[]> =>
    (await client.workers()).map((each) => each.worker_id).sort();
  const lives = async (ids: readonly string[]): Promise<number[]> =>
    Promise.all(ids.map((id) => site.pid(id)));
  await streams.begin(client);
  await streams.say(0, 2);
  await streams.hear(2);
  const ids = await workers();
  const pids = await lives(ids);
  assert.equal(ids.length, 3);

  await site.brain.kill();
  await streams.cut();
  await streams.say(2, 4);
  await site.startBrain(again);
  await streams.resume(client);
  await streams.say(4, 6);
  await streams.hear(6);

  await site.pool.kill();
  await streams.say(6, 8);
  await streams.hear(8);
  await site.heard('unreachable');
  await site.startPool();
  await site.heard();
  assert.deepEqual(await workers(), ids, 'taken over, and none beside them');
  assert.deepEqual(await lives(ids), pids);

  await Promise.all([site.brain.kill(), site.pool.kill()]);
  await streams.cut();
  await streams.say(8, 10);
  // An execution ends while neither brain nor pool manager runs.
  await streams.upstream.end('one');
  await Promise.all([site.startBrain(again), site.startPool()]);
  await streams.resume(client);
  await streams.upstream.end('two');
  await streams.upstream.end('three');
  await streams.endedOnce(client, words(0, 10).join(''));
  assert.deepEqual(site.ledger.sort(), streams.jobs.map((job) => `${job}:1`).sort(), 'each has run once');
  assert.deepEqual(await workers(), ids);
  assert.deepEqual(await lives(ids), pids);
}

test('streams outlive kill -9 of the brain, of the pool manager and of both; nothing runs twice (journal)', (t) =>
  survives(t, {}));

test('streams outlive kill -9 of the brain, of the pool manager and of both; nothing runs twice (mariadb)', async (t) =>
  survives(t, await mariadb()));

test('streams outlive the node that leads: another one takes over with the same workers', async (t) => {
  const { streams, url } = await upstreamOf(t);
  const ends = endsOf(t);
  const store = await mariadb();
  const site = await Site.start(ends, {
    config: { ...QUICK, ...store, cluster: { node: 'a', lease_ms: 2000, hold_ms: 20_000 } },
    pool: Site.told(url),
  });
  const { client, brain: first, folder } = site;
  const second: ServerProcess = await serve(ends, {
    data: join(folder, 'second'),
    config: { ...QUICK, ...store, cluster: { node: 'b', lease_ms: 2000, hold_ms: 20_000 } },
  });
  // The pool learns of both.
  await site.pool.kill();
  site.pool = await poolProcess(ends, {
    folder,
    brain: `${first.url},${second.url}`,
    config: Site.told(url),
    env: { ORCHD_WORKER_LEDGER: site.ledgerFile },
  });
  await site.heard();
  const other = new Client(second.url);
  await streams.begin(client);
  await streams.say(0, 3);
  await streams.hear(3);
  assert.equal((await other.done('GET', '/leader')).is_leader, false);
  // A follower of the standby node must not notice the change of leaders.
  const unmoved = await other.follow(streams.jobs[0]!);
  await unmoved.says(3);
  const ids = (await client.workers()).map(({ worker_id }) => worker_id).sort();

  await first.kill();
  await streams.cut();
  await streams.say(3, 5);
  await eventually('the other one leads', async () => (await other.done('GET', '/leader')).is_leader);
  await streams.resume(other);
  await streams.say(5, 7);
  await streams.hear(7);
  for (const model of MODELS) await streams.upstream.end(model);
  await streams.endedOnce(other, words(0, 7).join(''));
  assert.equal((await unmoved.end()).event, 'end');
  assert.equal(unmoved.text, words(0, 7).join(''));
  assert.deepEqual(site.ledger.sort(), streams.jobs.map((job) => `${job}:1`).sort(), 'each has run once');
  assert.deepEqual((await other.workers()).map(({ worker_id }) => worker_id).sort(), ids);
});
