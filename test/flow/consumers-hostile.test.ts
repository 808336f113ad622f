/** Consumers, and whoever pretends to be one, that send what they should not. */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { makeToken } from '../../src/wire/tokens.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { heapUsed } from '../fakes/heap-used.ts';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { deadLetters, env, fill, testRedis, until } from '../fakes/redis-kit.ts';
import { tempFolder } from './flow-kit.ts';
import { StreamSite } from './redis-kit.ts';

const FLOOD = 1000;
const LIES = 20;
const MIB = 2 ** 20;
const JUNK = 100_000;
/** After so many, what is loaded and compiled for them is in memory. */
const WARM = 20_000;

interface Answer {
  readonly status: number;
  readonly code: string | undefined;
  readonly body: {
    readonly consumer_id: string;
    readonly jobs: readonly unknown[];
    readonly lost: readonly string[];
    readonly results: readonly { readonly recorded?: true; readonly error?: { readonly code: string } }[];
  };
}

class Site {
  readonly brain: HttpBrain;
  readonly data: string;
  constructor(brain: HttpBrain, data: string) {
    this.brain = brain;
    this.data = data;
  }

  static async of(t: TestContext, options: Partial<HttpBrainOptions> = {}): Promise<Site> {
    const data = tempFolder(t);
    const brain = await httpBrain({ data, ...options });
    t.after(() => brain.stop());
    return new Site(brain, data);
  }

  get seq(): number {
    return engineOf(this.brain.orchestrator).state.seq;
  }

  async ask(method: string, path: string, body?: object, token?: string): Promise<Answer> {
    const answer = await fetch(`${this.brain.url}/v2/${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const said = JSON.parse(await answer.text()) as Answer['body'] & { error?: { code: string } };
    return { status: answer.status, code: said.error?.code, body: said };
  }

  /** Registers a consumer; returns the path of its requests. */
  async register(name: string): Promise<string> {
    const { body } = await this.ask('POST', 'consumers', { pool: 'p', name, slots: 4, types: ['work'] });
    return `consumers/${body.consumer_id}`;
  }

  async submit(job_id: string): Promise<void> {
    const { status } = await this.ask('POST', 'tasks', { job_id, type: 'work', payload: 1 });
    assert.equal(status, 202);
  }
}

/** Every request of a consumer, with bodies that are in order. */
const requestsOf = (path: string) =>
  [
    ['POST', `${path}/claim`, { claim: 1, max: 4 }],
    ['POST', `${path}/heartbeat`, { held: ['a:1'], claimed: 0 }],
    ['POST', `${path}/events`, { events: [{ token: 'a:1', n: 1, type: 'token', data: { t: 'x', i: 1 } }] }],
    ['POST', `${path}/results`, { results: [{ token: 'a:1', ok: true, result: 'a lie' }] }],
    ['DELETE', path, undefined],
  ] as const;

test('an id that nobody has is refused with one code, and nothing is changed', async (t) => {
  const site = await Site.of(t);
  await site.register('ann');
  await site.submit('a');
  const before = site.seq;
  for (const [method, path, body] of requestsOf(`consumers/${'0'.repeat(32)}`)) {
    const { status, code } = await site.ask(method, path, body);
    assert.deepEqual([status, code], [410, 'CONSUMER_GONE'], path);
  }
  for (const id of ['..%2f..', '%00', 'p%2fann', 'x'.repeat(5000)]) {
    const { status } = await site.ask('POST', `consumers/${id}/claim`, { claim: 1, max: 1 });
    assert.ok([400, 404, 410, 414].includes(status), `${status}`);
  }
  assert.equal(site.seq, before);
});

test('whoever does not hold a job can neither end it nor speak for it, and nothing of what it sends is kept', async (t) => {
  const site = await Site.of(t);
  const [ann, eve] = [await site.register('ann'), await site.register('eve')];
  await site.submit('a');
  assert.equal((await site.ask('POST', `${ann}/claim`, { claim: 1, max: 1 })).body.jobs.length, 1);
  const job = engineOf(site.brain.orchestrator).state.jobs.get('a')?.job;
  const before = sizeOf(site.data);
  const result = 'x'.repeat(MIB);
  for (const token of ['a:1', 'a:2', 'a:0', 'nobody:1', 'a', ':', '~:1', 'other~a:1', '__proto__:1'])
    for (const end of [{ ok: true, result }, { cancelled: true }, { returned: true }]) {
      const { body } = await site.ask('POST', `${eve}/results`, { results: [{ token, ...end }] });
      assert.deepEqual(body.results[0]?.error?.code, 'FENCED', token);
    }
  for (let n = 0; n < LIES; n++)
    await site.ask('POST', `${eve}/results`, {
      results: [{ token: 'a:1', ok: true, result: `${n}${result}` }],
    });
  const event = { token: 'a:1', n: 1, type: 'token', data: { t: 'a lie', i: 1 } };
  assert.deepEqual((await site.ask('POST', `${eve}/events`, { events: [event] })).body.lost, ['a:1']);
  const heard = await site.ask('POST', `${eve}/heartbeat`, { held: ['a:1'], claimed: 99 });
  assert.deepEqual(heard.body.lost, ['a:1']);
  assert.equal(engineOf(site.brain.orchestrator).state.jobs.get('a')?.job, job);
  assert.ok(sizeOf(site.data) - before < (LIES * MIB) / 4, 'results that were refused are not stored');
  const ended = await site.ask('POST', `${ann}/results`, {
    results: [{ token: 'a:1', ok: true, result: 1 }],
  });
  assert.equal(ended.body.results[0]?.recorded, true);
});

function sizeOf(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  // Segments are made at their full size: only what is written in them counts.
  return files.reduce((sum, { parentPath, name }) => sum + writtenIn(join(parentPath, name)), 0);
}

const writtenIn = (path: string): number => statSync(path).blocks * 512;

test('results that come at once, and again, are recorded once; one that is too large is refused as a whole', async (t) => {
  const site = await Site.of(t);
  const ann = await site.register('ann');
  await site.submit('a');
  await site.ask('POST', `${ann}/claim`, { claim: 1, max: 1 });
  const huge = { results: [{ token: 'a:1', ok: true, result: 'x'.repeat(17 * MIB) }] };
  const refused = await fetch(`${site.brain.url}/v2/${ann}/results`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(huge),
  }).then(
    ({ status }) => status,
    () => 413,
  );
  assert.equal(refused, 413);
  const results = (n: number) => ({ results: [{ token: 'a:1', ok: true, result: `${n}`.repeat(8000) }] });
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) => site.ask('POST', `${ann}/results`, results(n % 10))),
  );
  assert.ok(answers.every(({ body }) => body.results[0]?.recorded));
  const changes = site.seq;
  await site.ask('POST', `${ann}/results`, {
    results: [{ token: 'a:1', ok: false, error: { message: 'no' } }],
  });
  assert.equal(site.seq, changes);
  const { state, attempts } = await site.brain.orchestrator.get('a');
  assert.deepEqual([state, attempts.length], ['succeeded', 1]);
});

test('tokens of another tenant reach no consumer and no pool', async (t) => {
  const made = (tenant?: string) => makeToken(env.random, 0, `one-${tenant}`, 'consumer', tenant);
  const [own, foreign] = [made(), made('lab')];
  const site = await Site.of(t, { tokens: [own.entry, foreign.entry] });
  const body = { pool: 'p', slots: 1, types: ['work'] };
  const { body: registered } = await site.ask('POST', 'consumers', body, own.token);
  const before = site.seq;
  const refused = [
    ['POST', 'consumers', body] as const,
    ...requestsOf(`consumers/${registered.consumer_id}`),
  ];
  for (const [method, path, sent] of refused) {
    const { status, code } = await site.ask(method, path, sent, foreign.token);
    assert.deepEqual([status, code], [403, 'FORBIDDEN'], path);
  }
  assert.equal(site.seq, before);
});

test('a flood of heartbeats is answered, writes nothing, and leaves nothing in memory', async (t) => {
  const site = await Site.of(t);
  const ann = await site.register('ann');
  const held = Array.from({ length: 100 }, (_, n) => `${'x'.repeat(100)}${n}:1`);
  const beat = () => site.ask('POST', `${ann}/heartbeat`, { held, claimed: 0 });
  await Promise.all(Array.from({ length: 50 }, beat));
  const [before, seq] = [await heapUsed(), site.seq];
  for (let n = 0; n < FLOOD; n += 50) {
    const answers = await Promise.all(Array.from({ length: 50 }, beat));
    assert.ok(answers.every(({ body }) => body.lost.length === held.length));
  }
  // A registration is written again when a third of its lease is over.
  assert.ok(site.seq - seq <= 20, `${site.seq - seq} changes`);
  // If what they hold were kept, it would be twice as much.
  assert.ok((await heapUsed()) - before < 5 * MIB);
});

for (const stream of ['ingest_events', 'control'] as const)
  test(`junk in :${stream} goes to the DLQ while memory stays flat, and what is of use behind it is done`, async (t) => {
    const redis = await testRedis(t);
    const site = new StreamSite(t, redis, 'memory');
    const token = site.token('operate');
    await fill(redis, `stream:orchestrator:${stream}`, JUNK, ['junk', 'x'.repeat(300), 'order', 'no such']);
    const good = {
      ingest_events: ['job', '{"type":"work"}'],
      control: ['order', 'reconcile', 'token', token],
    };
    await site.add(stream, ...good[stream]);
    await site.start({ control: true });
    await until(async () => ((await site.length(stream)) as number) < JUNK - WARM);
    const before = await heapUsed();
    await until(async () => (await site.length(stream)) === 0);
    const grown = (await heapUsed()) - before;
    // If entries were kept, it would be more than twice as much.
    assert.ok(grown < 32 * MIB, `memory stays flat, and has grown by ${grown}`);
    assert.ok(
      (await deadLetters(redis)).every(({ reason = '' }) => /^(INVALID_PARAMS|UNAUTHORIZED)/.test(reason)),
    );
    if (stream === 'control') assert.ok(site.orchestrator.reconciliation.reports.length > 0);
    else assert.equal((await site.orchestrator.list()).jobs.length, 1);
  });
