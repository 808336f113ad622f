/** The official client of OpenAI by way of a node that does not lead. */
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import OpenAI from 'openai';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';
import { Cluster, type Job } from './cluster-kit.ts';
import { clientOf } from './openai-kit.ts';
import type { ServerProcess } from './server-process.ts';

let server: OwnServer;
before(async () => {
  server = await ownMariaDb();
});
after(() => server.stop());

const LONG = { timeout: 120_000 };
const CHAT = { model: 'shell', messages: [{ role: 'user' as const, content: 'Hello' }] };
const WORDS = 'one\ntwo\nthree\n';

interface Nodes {
  readonly cluster: Cluster;
  readonly leader: ServerProcess;
  readonly other: ServerProcess;
  /** Asks the one that does not lead. */
  readonly client: OpenAI;
}

/** Two nodes whose model says one word, waits until it is let go, and says two more. */
async function nodes(t: TestContext): Promise<Nodes> {
  const cluster = await Cluster.on(t, server);
  const config = (node: string): object => {
    const given = cluster.config(node) as {
      backends: { commands: { types: { work: object } }[] };
    };
    const { work } = given.backends.commands[0]!.types;
    const shell = { name: 'shell', slots: 4, models: ['shell'], types: { inference: work } };
    return { ...given, backends: { demo: false, commands: [shell] } };
  };
  const leader = await cluster.start('a', { config: config('a') });
  await cluster.leads(leader);
  const other = await cluster.start('b', { config: config('b') });
  await cluster.until(async () => (await cluster.leaderOf(other)).leader === 'a');
  return { cluster, leader, other, client: clientOf(other.url) };
}

test('answers, streams, headers and refusals come through as the leader gave them', LONG, async (t) => {
  const { cluster, leader, client } = await nodes(t);
  const headers = { 'X-Orchd-Agent': 'writer', 'X-Orchd-Session': 's-1', 'Idempotency-Key': 'k' };
  const { data, response } = await client.chat.completions.create(CHAT, { headers }).withResponse();
  assert.equal(data.choices[0]?.message.content, WORDS);
  const id = response.headers.get('x-orchd-job-id')!;
  assert.ok(response.headers.has('x-orchd-queue-position'));
  const job = await cluster.get<Job & { agent: string; session_id: string }>(leader, `/v2/tasks/${id}`);
  assert.deepEqual([job.state, job.agent, job.session_id], ['succeeded', 'writer', 's-1']);
  const again = await clientOf(leader.url).chat.completions.create(CHAT, { headers });
  assert.equal(again.id, data.id, 'the same key is the same job at every node');
  cluster.hold();
  const stream = await client.chat.completions.create({ ...CHAT, stream: true });
  let text = '';
  for await (const { choices } of stream) {
    text += choices[0]?.delta.content ?? '';
    // The first word arrives while the work goes on.
    if (text === 'one\n') cluster.letGo();
  }
  assert.equal(text, WORDS);
  assert.equal((await client.models.retrieve('shell')).id, 'shell');
  await assert.rejects(client.chat.completions.create({ ...CHAT, model: 'none' }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...CHAT, n: 3 }), OpenAI.UnprocessableEntityError);
  const embeddings = client.embeddings.create({ model: 'shell', input: 'x' });
  await assert.rejects(embeddings, (error: InstanceType<typeof OpenAI.APIError>) => {
    assert.deepEqual([error.status, error.code], [422, 'UNSUPPORTED']);
    return error.headers?.has('x-orchd-job-id') === true;
  });
});

test('who leaves a node that does not lead ends the job at the one that does', LONG, async (t) => {
  const { cluster, leader, client } = await nodes(t);
  cluster.hold();
  for (const stream of [true, false]) {
    const abort = new AbortController();
    const ran = cluster.ledger().length;
    const asking = client.chat.completions.create({ ...CHAT, stream }, { signal: abort.signal });
    const left = Promise.resolve(asking).then(
      () => undefined,
      () => undefined,
    );
    await cluster.until(() => cluster.ledger().length === ran + 1);
    await (stream ? left : undefined);
    abort.abort();
    await left;
    const states = async (): Promise<string[]> =>
      (await cluster.get<{ jobs: Job[] }>(leader, '/v2/tasks')).jobs.map(({ state }) => state);
    await cluster.until(async () => {
      const all = await states();
      return all.length === ran + 1 && all.every((state) => state === 'cancelled');
    });
  }
});

test('a leader that dies in the middle of a stream ends it with an error', LONG, async (t) => {
  const { cluster, leader, client } = await nodes(t);
  cluster.hold();
  const stream = await client.chat.completions.create({ ...CHAT, stream: true });
  let text = '';
  const reading = (async () => {
    for await (const { choices } of stream) {
      text += choices[0]?.delta.content ?? '';
      if (text === 'one\n') void leader.kill();
    }
  })();
  await assert.rejects(reading, { code: 'NO_LEADER', type: 'server_error' });
  assert.equal(text, 'one\n');
  cluster.letGo();
});
