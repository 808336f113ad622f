/** Connections that hold a place and do nothing with it keep nobody out, and refused ones are gone soon. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { HttpLimits } from '../../src/wire/http-server.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { SeededRandom } from '../fakes/world.ts';

/** Timeouts so long that none of them ends a connection during a test. */
const PATIENT = { headersTimeoutMs: 120_000, requestTimeoutMs: 120_000, idleMs: 120_000 };
const TOKEN = makeToken(new SeededRandom(1), 0, 'tester', 'submit');

async function brainOf(t: TestContext, limits: Partial<HttpLimits>, tokens = false): Promise<HttpBrain> {
  const brain = await httpBrain({
    limits: { ...PATIENT, ...limits },
    ...(tokens && { tokens: [TOKEN.entry] }),
  });
  t.after(() => brain.stop());
  return brain;
}

async function connected(t: TestContext, brain: HttpBrain, from = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port: brain.port, host: '127.0.0.1', localAddress: from, allowHalfOpen: true });
  socket.on('error', () => undefined).resume();
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

const many = (n: number, open: () => Promise<Socket>): Promise<Socket[]> =>
  Promise.all(Array.from({ length: n }, open));

interface Answer {
  readonly status: number;
  readonly code: string | undefined;
}

function ask({ port }: HttpBrain, path: string, from = '127.0.0.1'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, localAddress: from, agent: false };
    const sent = request(options, async (response) => {
      let text = '';
      for await (const piece of response) text += piece;
      const { error } = JSON.parse(text) as { error?: { code: string } };
      resolve({ status: response.statusCode ?? 0, code: error?.code });
    });
    sent.on('error', reject).end();
  });
}

/** Follows a job that nothing runs: a connection that is busy until the test ends. */
async function stream(t: TestContext, { port }: HttpBrain, from = '127.0.0.1'): Promise<IncomingMessage> {
  const path = '/v2/tasks/watched/events';
  const sent = request({ host: '127.0.0.1', port, path, localAddress: from, agent: false }).end();
  sent.on('error', () => undefined);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.on('error', () => undefined).resume();
  t.after(() => sent.destroy());
  return response;
}

const hex = (port: number): string => port.toString(16).toUpperCase().padStart(4, '0');

/** Whether the server still has its end of a connection; the kernel shows an end without a process with inode 0. */
function isHeld({ port }: HttpBrain, { localPort = 0 }: Socket): boolean {
  const ends = `:${hex(port)} \\S+:${hex(localPort)} `;
  const line = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .find((each) => new RegExp(ends).test(each));
  return line !== undefined && line.trim().split(/\s+/)[9] !== '0';
}

async function gone(brain: HttpBrain, socket: Socket): Promise<void> {
  const { localPort = 0 } = socket;
  while (isHeld(brain, { localPort } as Socket)) await new Promise((resolve) => setTimeout(resolve, 20));
}

const REFUSED: Record<string, { text: string; status: number; limits?: Partial<HttpLimits> }> = {
  'a head that does not arrive': {
    text: 'GET /health HTTP/1.1\r\nhost: local',
    status: 408,
    limits: { headersTimeoutMs: 100 },
  },
  'no request at all': { text: '\u0016\u0003\u0001\r\n\r\n', status: 400 },
  'a head that is too large': {
    text: `GET /health HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`,
    status: 413,
  },
  'a body that is too large': {
    text: `POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${TOKEN.token}\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n`,
    status: 413,
  },
  'a body without a token': {
    text: 'POST /v2/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nfff\r\n',
    status: 401,
  },
};

for (const [what, { text, status, limits = {} }] of Object.entries(REFUSED)) {
  test(`${what} is answered with ${status}, and two seconds later the connection is gone`, {
    timeout: 60_000,
  }, async (t) => {
    const brain = await brainOf(t, limits, true);
    const socket = await connected(t, brain);
    socket.write(text);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.ok(isHeld(brain, socket));
    assert.match(answer.toString(), new RegExp(`^HTTP/1.1 ${status} `));
    // Nothing else ends it in the time of this test: the limits of PATIENT are longer.
    await gone(brain, socket);
  });
}

test('silent connections keep nobody out: the oldest of them make room', { timeout: 30_000 }, async (t) => {
  const brain = await brainOf(t, { maxConnections: 20 });
  const silent = await many(20, () => connected(t, brain));
  for (const path of ['/health', '/ready', '/leader', '/v2/tasks']) {
    assert.deepEqual(await ask(brain, path), { status: 200, code: undefined }, path);
  }
  assert.equal(silent.filter((socket) => isHeld(brain, socket)).length, 19);
});

test('of busy connections none is closed; health checks get in all the same, and everybody else a 503', {
  timeout: 30_000,
}, async (t) => {
  const brain = await brainOf(t, { maxConnections: 20 });
  await brain.orchestrator.submit({ job_id: 'watched', type: 'nobody-does' });
  const streams = await Promise.all(Array.from({ length: 20 }, () => stream(t, brain)));
  const silent = await many(100, () => connected(t, brain));
  for (const path of ['/health', '/ready']) assert.equal((await ask(brain, path)).status, 200);
  assert.deepEqual(await ask(brain, '/v2/tasks'), { status: 503, code: 'TOO_MANY_CONNECTIONS' });
  await Promise.all(silent.map((socket) => gone(brain, socket)));
  assert.deepEqual(
    streams.filter(({ destroyed, complete }) => destroyed || complete),
    [],
  );
});

test('one address cannot take all connections, and makes room among its own', {
  timeout: 30_000,
}, async (t) => {
  const brain = await brainOf(t, { maxConnections: 40, maxConnectionsPerAddress: 10 });
  await brain.orchestrator.submit({ job_id: 'watched', type: 'nobody-does' });
  const quiet = await many(5, () => connected(t, brain, '127.0.0.3'));
  await Promise.all(Array.from({ length: 10 }, () => stream(t, brain, '127.0.0.2')));
  assert.deepEqual(await ask(brain, '/v2/tasks', '127.0.0.2'), { status: 503, code: 'TOO_MANY_CONNECTIONS' });
  assert.equal((await ask(brain, '/health', '127.0.0.2')).status, 200);
  const silent = await many(10, () => connected(t, brain, '127.0.0.4'));
  assert.equal((await ask(brain, '/v2/tasks', '127.0.0.4')).status, 200);
  assert.equal(silent.filter((socket) => isHeld(brain, socket)).length, 9);
  assert.equal((await ask(brain, '/v2/tasks', '127.0.0.3')).status, 200);
  for (const socket of quiet) {
    const answered = once(socket, 'data');
    socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n');
    assert.match(String(await answered), /^HTTP\/1.1 200 /);
  }
});

test('a client of this machine may use all connections where no limit per address is set', {
  timeout: 30_000,
}, async (t) => {
  const brain = await brainOf(t, { maxConnections: 40, maxConnectionsPerAddress: 0 });
  await brain.orchestrator.submit({ job_id: 'watched', type: 'nobody-does' });
  await Promise.all(Array.from({ length: 40 }, () => stream(t, brain)));
});
