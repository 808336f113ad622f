/** Large bodies: what is legal works, what is too much is refused soon, and their memory is bounded. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type HttpBrain, type HttpBrainOptions, httpBrain } from '../fakes/http-brain.ts';
import { LoopClient } from '../fakes/loop-client.ts';

const MIB = 2 ** 20;

async function brainWith(t: TestContext, options: HttpBrainOptions = {}): Promise<HttpBrain> {
  const brain = await httpBrain(options);
  t.after(() => brain.stop());
  return brain;
}

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: { readonly error?: { readonly code: string; readonly retriable: boolean } };
}

function post({ port }: HttpBrain, path: string, text: string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const sent = request(
      { host: '127.0.0.1', port, path, method: 'POST', headers, agent: false },
      (response) => {
        let answer = '';
        response.on('data', (piece) => {
          answer += piece;
        });
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: JSON.parse(answer) });
        });
      },
    );
    sent.on('error', reject);
    sent.end(text);
  });
}

const HEAD = 'POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n';

/** A request whose body never ends: the client sends on, a few bytes at a time, until the connection closes. */
async function sendForever(port: number, head: string): Promise<string> {
  let text = '';
  const socket = connect(port, '127.0.0.1', () => socket.write(head));
  const timer = setInterval(() => socket.write('          '), 20);
  socket.on('data', (piece) => {
    text += piece;
  });
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.on('close', resolve));
  clearInterval(timer);
  return text;
}

test('a request that is answered before its body has arrived ends soon, not at the timeout of requests', async (t) => {
  const brain = await brainWith(t, { limits: { maxBodyBytes: 100_000, requestTimeoutMs: 600_000 } });
  const tooLarge = await sendForever(brain.port, `${HEAD}content-length: 1000000000\r\n\r\n`);
  assert.match(tooLarge, /^HTTP\/1.1 413/);
  const type = HEAD.replace('application/json', 'text/plain');
  assert.match(await sendForever(brain.port, `${type}content-length: 90000\r\n\r\n`), /^HTTP\/1.1 415/);
  const path = HEAD.replace('/v2/tasks', '/nowhere');
  assert.match(await sendForever(brain.port, `${path}content-length: 90000\r\n\r\n`), /^HTTP\/1.1 404/);
});

test('a client that sends a body that is too large reads the refusal, although it asks to close the connection', async (t) => {
  const brain = await brainWith(t, { limits: { maxBodyBytes: 100_000 } });
  // In a thread of its own, the client still sends when the answer comes.
  const client = new LoopClient();
  t.after(() => client.stop());
  const body = { name: 'a text of 16 MB', field: undefined, rest: {} } as const;
  for (let at = 0; at < 10; at++) {
    const request = { port: brain.port, method: 'POST', path: '/v2/tasks', body };
    assert.equal((await client.send(request)).status, 413);
  }
});

test('bodies beyond the memory for them get a retriable 503, small ones get in, and the memory comes back', async (t) => {
  const brain = await brainWith(t, { limits: { maxBodyBytesInFlight: 2 * MIB } });
  const held = new Set<Socket>();
  const begin = `${HEAD}content-length: ${4 * MIB}\r\n\r\n"${'x'.repeat(MIB)}`;
  const hold = (): void => {
    const socket = connect(brain.port, '127.0.0.1', () => socket.write(begin));
    held.add(socket);
    socket.on('error', () => undefined);
    // The only answer to an unfinished body is a refusal: a large body was there before this one.
    socket.once('data', () => {
      held.delete(socket);
      socket.destroy();
      hold();
    });
  };
  for (let at = 0; at < 2; at++) hold();
  const large = JSON.stringify({ type: 'nobody-does', wait_for_backend: true, payload: 'x'.repeat(MIB) });
  let refused = await post(brain, '/v2/tasks', large);
  // The bodies of the other two may still be on their way.
  while (refused.status === 202) refused = await post(brain, '/v2/tasks', large);
  assert.deepEqual(
    [refused.status, refused.body.error?.code, refused.body.error?.retriable],
    [503, 'SERVER_BUSY', true],
  );
  assert.equal(refused.headers['retry-after'], '1');
  const small = JSON.stringify({ type: 'nobody-does', wait_for_backend: true, payload: 'x'.repeat(1000) });
  assert.equal((await post(brain, '/v2/tasks', small)).status, 202);
  for (const socket of held) socket.destroy();
  let status = 503;
  while (status === 503) ({ status } = await post(brain, '/v2/tasks', large));
  assert.equal(status, 202);
});

test('a bulk of 1,000 jobs with 16 labels each, of 16 MB in all, is admitted', async (t) => {
  const brain = await brainWith(t);
  const labels = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`label-${at}`, `value-${at}`]));
  const jobs = Array.from({ length: 1000 }, (_, at) => ({
    job_id: `bulk-${at}`,
    type: 'nobody-does',
    wait_for_backend: true,
    labels,
    payload: { at, text: 'é\n"x"'.repeat(1650), list: [1, 2, { three: null }] },
  }));
  const text = JSON.stringify(jobs);
  assert.ok(text.length > 12 * MIB);
  const { status, body } = await post(brain, '/v2/tasks', text);
  assert.equal(status, 200);
  const { answers } = body as { answers: readonly { http_status: number; job_id: string }[] };
  assert.ok(answers.every((answer, at) => answer.http_status === 202 && answer.job_id === `bulk-${at}`));
  // The same again: each body has the same hash as when it is sent alone, in one turn.
  const alone = (await post(brain, '/v2/tasks', JSON.stringify(jobs[7]))).body as { duplicate_of?: string };
  assert.equal(alone.duplicate_of, 'job_id');
  assert.equal((await post(brain, '/v2/tasks', JSON.stringify({ ...jobs[7], payload: 1 }))).status, 409);
});

test('a large job is the same job however its body is read', async (t) => {
  const brain = await brainWith(t);
  const payload = { b: [1.5, null, 'é🦊\n'], a: { deep: 'x'.repeat(100_000) } };
  const job = { job_id: 'one', type: 'nobody-does', wait_for_backend: true, payload };
  assert.equal((await post(brain, '/v2/tasks', JSON.stringify(job))).status, 202);
  const again = await brain.orchestrator.submit({ ...job, payload: { a: payload.a, b: payload.b } });
  assert.equal(again.duplicate_of, 'job_id');
});

test('/openapi.json is written once', async (t) => {
  const brain = await brainWith(t);
  const read = async (): Promise<string> => (await fetch(`${brain.url}/openapi.json`)).text();
  const first = await read();
  // The document is made of some hundred copies of schemas, each by this method.
  const copies = t.mock.method(Object, 'fromEntries');
  assert.equal(await read(), first);
  assert.ok(copies.mock.callCount() < 20, `${copies.mock.callCount()} copies`);
});
