/** Large answers: they arrive whole, readers that do not read share bounded memory, and nobody else waits for them. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { tempFolder } from './flow-kit.ts';

const MIB = 2 ** 20;
/** More than the kernel takes for a client that does not read. */
const RESULT_BYTES = 24 * MIB;
const READERS = 20;

const resultOf = (letter: string): string => `🦊é${letter.repeat(RESULT_BYTES)}`;

/** A brain with memory for one large result, and two jobs, `a` and `b`, that have one each. */
async function brainWithResults(t: TestContext, later = async (): Promise<string> => ''): Promise<HttpBrain> {
  const brain = await httpBrain({
    data: tempFolder(t),
    limits: { maxAnswerBytesInFlight: RESULT_BYTES + MIB },
    heartbeatMs: 20,
    backends: [
      {
        name: 'local',
        types: { large: ({ letter }: { letter: string }) => resultOf(letter), small: () => 1, later },
      },
    ],
  });
  t.after(() => brain.stop());
  const { orchestrator } = brain;
  for (const letter of ['a', 'b'])
    await orchestrator.submit({ job_id: letter, type: 'large', payload: { letter } });
  await orchestrator.submit({ job_id: 'small', type: 'small' });
  for (const id of ['a', 'b', 'small']) await orchestrator.wait(id);
  return brain;
}

/** A client that reads the first bytes of its answer and then nothing more. */
async function unread(t: TestContext, { port }: HttpBrain, path: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.on('error', () => undefined);
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  const head = await new Promise<Buffer>((resolve) => socket.once('data', resolve));
  socket.pause();
  assert.match(head.toString('latin1'), /^HTTP\/1.1 200/);
  return socket;
}

interface JobAnswer {
  readonly result?: string;
  readonly error?: { readonly code: string; readonly retriable: boolean };
}

async function get(
  { url }: HttpBrain,
  path: string,
): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(url + path);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

for (const path of ['', '/events']) {
  test(`any number of clients that do not read a result share one copy of it, and another result gets a retriable 503 (GET /v2/tasks/{id}${path})`, {
    timeout: 120_000,
  }, async (t) => {
    const brain = await brainWithResults(t);
    const before = process.memoryUsage.rss();
    const clients = await Promise.all(
      Array.from({ length: READERS }, () => unread(t, brain, `/v2/tasks/a${path}`)),
    );
    const grown = process.memoryUsage.rss() - before;
    assert.ok(grown < (READERS / 2) * RESULT_BYTES, `${Math.round(grown / MIB)} MiB`);

    const refused = await get(brain, `/v2/tasks/b${path}`);
    const { error } = JSON.parse(refused.text) as JobAnswer;
    assert.deepEqual([refused.status, error?.code, error?.retriable], [503, 'SERVER_BUSY', true]);
    assert.equal(refused.headers.get('retry-after'), '1');
    assert.equal((await get(brain, `/v2/tasks/small${path}`)).status, 200);

    for (const client of clients) client.destroy();
    let later = await get(brain, `/v2/tasks/b${path}`);
    while (later.status === 503) later = await get(brain, `/v2/tasks/b${path}`);
    assert.ok(later.text.includes(resultOf('b')));
  });
}

test('readers of a large result get the same whole JSON, by GET and as the last event, however many there are', async (t) => {
  const brain = await brainWithResults(t);
  const [job, events, ...others] = await Promise.all(
    ['', '/events', '', '/events', ''].map((path) => get(brain, `/v2/tasks/a${path}`)),
  );
  assert.equal((JSON.parse(job?.text ?? '') as JobAnswer).result, resultOf('a'));
  assert.equal(Number(job?.headers.get('content-length')), Buffer.byteLength(job?.text ?? ''));
  const [, data = ''] = /^data: (.*)$/m.exec(events?.text ?? '') ?? [];
  assert.deepEqual(JSON.parse(data), { job_id: 'a', state: 'succeeded', result: resultOf('a') });
  for (const other of others) assert.ok(other.text === job?.text || other.text === events?.text);
  const again = await fetch(`${brain.url}/v2/tasks/a/cancel`, { method: 'POST' });
  assert.equal(((await again.json()) as JobAnswer).result, resultOf('a'));
});

test('the end of a job waits for those who follow it until there is memory for its result', async (t) => {
  const finish = Promise.withResolvers<string>();
  const brain = await brainWithResults(t, () => finish.promise);
  const { orchestrator } = brain;
  const { job_id } = await orchestrator.submit({ type: 'later' });
  const following = await fetch(`${brain.url}/v2/tasks/${job_id}/events`);
  const client = await unread(t, brain, '/v2/tasks/a');
  finish.resolve(resultOf('c'));
  await orchestrator.wait(job_id);
  const refused = await get(brain, `/v2/tasks/${job_id}`);
  assert.equal(refused.status, 503);
  client.destroy();
  const text = await following.text();
  assert.ok(text.includes(`"result":${JSON.stringify(resultOf('c'))}}\n\n`));
});

test('a list of jobs that is as long as lists get is whole', async (t) => {
  const brain = await brainWithResults(t);
  const jobs = Array.from({ length: 1000 }, (_, at) => ({ job_id: `j${at}`, type: 'nobody-does' }));
  await brain.orchestrator.submitMany(jobs);
  const page = JSON.parse((await get(brain, '/v2/tasks?limit=1000')).text) as {
    readonly jobs: readonly { readonly job_id: string }[];
    readonly cursor: string;
  };
  assert.deepEqual(
    page.jobs.map(({ job_id }) => job_id),
    jobs.map(({ job_id }) => job_id).reverse(),
  );
  const rest = JSON.parse((await get(brain, `/v2/tasks?cursor=${page.cursor}`)).text) as typeof page;
  assert.equal(rest.jobs.length, 3);
});

test("large results arrive whole in OpenAI's format, in one piece and as a stream", async (t) => {
  const text = '🦊é"\n'.repeat(100_000);
  const call = (at: number): object => ({
    id: `c${at}`,
    type: 'function',
    function: { name: 'f', arguments: '{}' },
  });
  const calls = Array.from({ length: 2000 }, (_, at) => call(at));
  const embeddings = [1, 2, 3].map((row) =>
    Array.from({ length: 7001 }, (_, at) => Math.fround(row / (at + 1))),
  );
  const usage = { prompt_tokens: 3, completion_tokens: 4 };
  const result = { text, tool_calls: calls, finish_reason: 'stop', embeddings, usage };
  const backend = { name: 'engine', models: ['m'], types: { inference: () => result } };
  const brain = await httpBrain({ data: tempFolder(t), backends: [backend] });
  t.after(() => brain.stop());
  const post = async (path: string, body: object): Promise<string> => {
    const request = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const response = await fetch(brain.url + path, {
      ...request,
      body: JSON.stringify({ model: 'm', ...body }),
    });
    assert.equal(response.status, 200);
    return response.text();
  };
  const messages = [{ role: 'user', content: 'x' }];
  const whole = JSON.parse(await post('/v1/chat/completions', { messages }));
  assert.deepEqual(whole.choices[0].message.content, text);
  assert.deepEqual(whole.choices[0].message.tool_calls, calls);
  assert.deepEqual(whole.usage, { ...usage, total_tokens: 7 });

  const stream = await post('/v1/chat/completions', { messages, stream: true });
  const events = stream.split('\n\n').filter((event) => event.startsWith('data: '));
  assert.equal(events.pop(), 'data: [DONE]');
  const deltas = events.map((event) => JSON.parse(event.slice(6)).choices[0].delta);
  assert.equal(deltas.map(({ content = '' }) => content).join(''), text);
  assert.deepEqual(
    deltas.flatMap(({ tool_calls = [] }) => tool_calls),
    calls.map((each, index) => ({ index, ...each })),
  );

  const input = ['a', 'b', 'c'];
  const floats = JSON.parse(await post('/v1/embeddings', { input }));
  assert.deepEqual(
    floats.data.map(({ embedding }: { embedding: number[] }) => embedding),
    embeddings,
  );
  const encoded = JSON.parse(await post('/v1/embeddings', { input, encoding_format: 'base64' }));
  const decoded = encoded.data.map(({ embedding }: { embedding: string }) => {
    const bytes = Buffer.from(embedding, 'base64');
    return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
  });
  assert.deepEqual(decoded, embeddings);
});
