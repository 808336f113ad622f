/** Jobs sent as lines (NDJSON): answered line by line, in order, in bounded memory. */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { LoopClock } from '../fakes/loop-clock.ts';
import { until } from './cli-process.ts';
import { tempFolder, within } from './flow-kit.ts';

const PATIENCE_MS = 60_000;
const TYPE = 'application/x-ndjson';
const NOBODY = { type: 'nobody', wait_for_backend: true };
const ROOMY = 'orchestrator: {queue_capacity: 1000000}';

interface LineAnswer {
  readonly line: number;
  readonly http_status: number;
  readonly job_id?: string;
  readonly duplicate_of?: string;
  readonly error?: { readonly code: string; readonly message: string };
}

async function begin(t: TestContext, options: HttpBrainOptions = {}): Promise<HttpBrain> {
  const brain = await httpBrain({ config: ROOMY, ...options });
  t.after(() => brain.stop());
  return brain;
}

const linesOf = (text: string): LineAnswer[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

async function send(brain: HttpBrain, body: string | Buffer, query = ''): Promise<LineAnswer[]> {
  const response = await fetch(`${brain.url}/v2/tasks${query}`, {
    method: 'POST',
    headers: { 'content-type': TYPE },
    body: body as string,
  });
  assert.deepEqual([response.status, response.headers.get('content-type')], [200, TYPE]);
  return linesOf(await response.text());
}

/** A request whose lines the test writes one by one. */
function open(t: TestContext, { port }: HttpBrain): { out: ClientRequest; answer: Promise<IncomingMessage> } {
  const headers = { 'content-type': TYPE, 'transfer-encoding': 'chunked' };
  const out = request({ host: '127.0.0.1', port, path: '/v2/tasks', method: 'POST', headers, agent: false });
  t.after(() => out.destroy());
  out.on('error', () => undefined);
  out.flushHeaders();
  return { out, answer: once(out, 'response').then(([response]) => response as IncomingMessage) };
}

/** The server's end of each connection, in the order of their requests: what it has read can be seen there. */
function acceptedSockets(t: TestContext): readonly Socket[] {
  const name = 'http.server.request.start';
  const sockets: Socket[] = [];
  const note = (message: unknown): void => void sockets.push((message as { socket: Socket }).socket);
  subscribe(name, note);
  t.after(() => void unsubscribe(name, note));
  return sockets;
}

const lineOf = (fields: object = {}): string => `${JSON.stringify({ ...NOBODY, ...fields })}\n`;

describe('lines of jobs', () => {
  test('are each answered under the number of their line, and a bad one stops no other', async (t) => {
    const brain = await begin(t);
    const lines = [
      `\ufeff${JSON.stringify({ ...NOBODY, job_id: 'a' })}\r`,
      '',
      'no json',
      JSON.stringify({ ...NOBODY, job_id: 'b', after: ['a'], batch: 'own' }),
      '{"unknown": 1}',
      '[1]',
      JSON.stringify({ ...NOBODY, job_id: 'a' }),
      JSON.stringify({ ...NOBODY, job_id: 'c', after: ['z'] }),
      JSON.stringify({ ...NOBODY, job_id: 'last' }),
    ];
    const answers = await send(brain, lines.join('\n'), '?batch=all');
    assert.deepEqual(
      answers.map(({ line, http_status, job_id, duplicate_of, error }) => [
        line,
        http_status,
        job_id ?? error?.code,
        duplicate_of,
      ]),
      [
        [1, 202, 'a', undefined],
        [3, 400, 'INVALID_PARAMS', undefined],
        [4, 202, 'b', undefined],
        [5, 400, 'INVALID_PARAMS', undefined],
        [6, 400, 'INVALID_PARAMS', undefined],
        [7, 202, 'a', 'job_id'],
        [8, 422, 'ADMISSION_REJECT', undefined],
        [9, 202, 'last', undefined],
      ],
    );
    const batches = ['a', 'b', 'last'].map(async (id) => (await brain.orchestrator.get(id)).batch);
    assert.deepEqual(await Promise.all(batches), ['all', 'own', 'all']);
  });

  test('are answered as they arrive, before the last one is sent', async (t) => {
    const brain = await begin(t);
    const { out, answer } = open(t, brain);
    let text = '';
    for (const id of ['a', 'b', 'c']) {
      out.write(lineOf({ job_id: id }));
      const response = await within(answer, PATIENCE_MS);
      if (text === '') response.setEncoding('utf8').on('data', (piece) => (text += piece));
      while (!text.includes(`"${id}"`)) await within(once(response, 'data'), PATIENCE_MS);
      assert.equal((await brain.orchestrator.get(id)).state, 'queued', 'an answer is durable');
    }
    out.end();
    await within(once(await answer, 'end'), PATIENCE_MS);
    assert.equal(linesOf(text).length, 3);
  });

  test('keep their order over many arrays, and their number has no limit', async (t) => {
    const brain = await begin(t);
    const count = 5000;
    const body = Array.from({ length: count }, (_, n) =>
      lineOf({ job_id: `j${n}`, ...(n > 0 && { after: [`j${n - 1}`] }) }),
    ).join('');
    const answers = await send(brain, body, '?batch=b');
    assert.deepEqual(
      answers.map(({ line, job_id }) => [line, job_id]),
      Array.from({ length: count }, (_, n) => [n + 1, `j${n}`]),
    );
    assert.equal((await brain.orchestrator.batches.get('b')).jobs, count);
  });

  test('over the capacity of the queue are refused one by one, and those before stay', async (t) => {
    const brain = await begin(t, { config: 'orchestrator: {queue_capacity: 10}' });
    const answers = await send(brain, lineOf().repeat(25));
    assert.deepEqual(
      answers.map(({ http_status }) => http_status),
      [...new Array(10).fill(202), ...new Array(15).fill(429)],
    );
    assert.equal(answers[24]?.error?.code, 'QUEUE_FULL');
  });

  test('that break off are admitted up to the last whole line', async (t) => {
    const brain = await begin(t);
    const { out, answer } = open(t, brain);
    out.write(`${lineOf({ job_id: 'whole' })}{"type":"nobody","wait_for_backend":true,"job_id":"half"`);
    const response = await within(answer, PATIENCE_MS);
    await within(once(response, 'data'), PATIENCE_MS);
    out.destroy();
    const known = await brain.orchestrator.list();
    assert.deepEqual(
      known.jobs.map(({ job_id }) => job_id),
      ['whole'],
    );
  });

  test('may be as long as a body, and a longer one is refused alone', async (t) => {
    const brain = await begin(t, { limits: { maxBodyBytes: 300_000 } });
    const long = lineOf({ job_id: 'long', payload: 'x'.repeat(200_000) });
    const tooLong = lineOf({ job_id: 'too-long', payload: 'x'.repeat(300_000) });
    const answers = await send(brain, long + tooLong + lineOf({ job_id: 'next' }));
    assert.deepEqual(
      answers.map(({ http_status, job_id, error }) => [http_status, job_id ?? error?.code]),
      [
        [202, 'long'],
        [413, 'TOO_LARGE'],
        [202, 'next'],
      ],
    );
  });

  test('may take longer than a request may take to arrive, as long as they come', async (t) => {
    const brain = await begin(t, { limits: { requestTimeoutMs: 300, headersTimeoutMs: 300 } });
    const { out, answer } = open(t, brain);
    const response = await within(answer, PATIENCE_MS);
    let text = '';
    response.setEncoding('utf8').on('data', (piece) => (text += piece));
    // The server looks for slow requests once a second.
    for (const until = Date.now() + 2500; Date.now() < until; ) {
      out.write(lineOf());
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    out.end();
    await within(once(response, 'end'), PATIENCE_MS);
    assert.ok(linesOf(text).every(({ http_status }) => http_status === 202));
  });

  test('wait while their sender reads no answers, and are all admitted once it does', {
    timeout: 120_000,
  }, async (t) => {
    const brain = await begin(t, {
      config: 'orchestrator: {queue_capacity: 300000}',
    });
    const { out, answer } = open(t, brain);
    const response = await within(answer, PATIENCE_MS);
    response.pause();
    const count = 200_000;
    const line = lineOf();
    const written = (async () => {
      for (let n = 0; n < count; n += 1000) if (!out.write(line.repeat(1000))) await once(out, 'drain');
      out.end();
    })();
    const admitted = (): number => brain.orchestrator.reads.figures().jobs.queued;
    let before = -1;
    while (before !== admitted() || before === 0) {
      before = admitted();
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    assert.ok(before < count, `${before} were admitted while nobody read the answers`);
    let lines = 0;
    response.on('data', (piece: Buffer) => {
      for (const byte of piece) if (byte === 10) lines++;
    });
    response.resume();
    await within(Promise.all([written, once(response, 'end')]), PATIENCE_MS);
    assert.equal(lines, count);
  });

  test('are streams, of which a caller may have so many', async (t) => {
    const brain = await begin(t, { maxStreamsPerCaller: 1 });
    const first = open(t, brain);
    await within(first.answer, PATIENCE_MS);
    const refused = await fetch(`${brain.url}/v2/tasks`, {
      method: 'POST',
      headers: { 'content-type': TYPE },
      body: lineOf(),
    });
    const { error } = (await refused.json()) as { error: { code: string } };
    assert.deepEqual([refused.status, error.code], [429, 'TOO_MANY_STREAMS']);
    first.out.end();
    await within(once((await first.answer).resume(), 'end'), PATIENCE_MS);
    assert.equal((await send(brain, lineOf()))[0]?.http_status, 202);
  });

  test('share the room for bodies: one that finds none ends, after the answers to the lines before', async (t) => {
    const brain = await begin(t, { limits: { maxBodyBytesInFlight: 1_000_000 } });
    const sockets = acceptedSockets(t);
    const holder = open(t, brain);
    await within(holder.answer, PATIENCE_MS);
    holder.out.write('x'.repeat(900_000));
    // Whoever comes later finds the room taken.
    await until(() => (sockets[0]?.bytesRead ?? 0) >= 900_000);
    const { out, answer } = open(t, brain);
    out.write(`${lineOf({ job_id: 'before' })}"${'y'.repeat(300_000)}`);
    const response = await within(answer, PATIENCE_MS);
    let text = '';
    response.setEncoding('utf8').on('data', (piece) => {
      text += piece;
    });
    await within(once(response, 'end'), PATIENCE_MS);
    assert.deepEqual(
      linesOf(text).map(({ line, http_status, job_id, error }) => [line, http_status, job_id ?? error?.code]),
      [
        [1, 202, 'before'],
        [2, 503, 'SERVER_BUSY'],
      ],
    );
  });

  test('with a content encoding are refused', async (t) => {
    const brain = await begin(t);
    const response = await fetch(`${brain.url}/v2/tasks`, {
      method: 'POST',
      headers: { 'content-type': TYPE, 'content-encoding': 'gzip' },
      body: lineOf(),
    });
    assert.equal(response.status, 415);
  });
});

test('the end of a job that 100,000 wait for keeps the loop busy for 50 ms at most', {
  timeout: 240_000,
}, async (t) => {
  const ends: PromiseWithResolvers<void>[] = [];
  const types = {
    first: () => {
      const end = Promise.withResolvers<void>();
      ends.push(end);
      return end.promise;
    },
    next: async () => 1,
  };
  const brain = await begin(t, {
    data: tempFolder(t),
    config: 'orchestrator: {queue_capacity: 200000}',
    backends: [{ name: 'f', slots: 1, types }],
  });
  const clock = new LoopClock();
  t.after(() => clock.stop());
  const { longestMs, said } = await clock.best(50, async (round) => {
    const [first, batch] = [`first-${round}`, `batch-${round}`];
    await brain.orchestrator.submit({ job_id: first, type: 'first', max_tries: 1 });
    while (ends.length <= round) await new Promise((resolve) => setImmediate(resolve));
    const requests = Array.from({ length: 1000 }, () => ({ type: 'next', after: [first], batch }));
    for (let n = 0; n < 100; n++) await brain.orchestrator.submitMany(requests);
    ends[round]?.reject(new Error('no'));
    while ((await brain.orchestrator.batches.get(batch)).live_jobs > 0)
      await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal((await brain.orchestrator.batches.get(batch)).counts.dead, 100_000);
  });
  t.diagnostic(said);
  assert.ok(longestMs <= 50, said);
});
