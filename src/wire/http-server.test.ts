import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { realEnv } from '../kit/env/real.ts';
import { createLogger } from '../kit/logger.ts';
import { LOOPBACK_HOSTS } from './access-gate.ts';
import { type HttpLimits, HttpServer } from './http-server.ts';
import type { Call, HandlerResult, Route } from './route.ts';

async function serving(
  t: TestContext,
  handle: (call: Call) => Promise<HandlerResult>,
  limits: Partial<HttpLimits> = {},
): Promise<number> {
  const route: Route = {
    operationId: 'test',
    tag: 'server',
    method: 'GET',
    path: '/:id',
    role: 'public',
    summary: '',
    answers: { 200: { description: '', type: 'text/plain' } },
    handle,
  };
  const env = realEnv();
  const server = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    random: env.random,
    timers: env.timers,
    logger: createLogger({ write: () => undefined, now: () => 0 }),
    gate: { allowedHosts: LOOPBACK_HOSTS, allowedOrigins: [], tokens: () => [], openWithoutTokens: true },
    routes: [route],
    limits,
  });
  await server.start();
  t.after(() => server.stop());
  return server.port;
}

const requestFor = (id: number): string => `GET /${id} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
const textAnswer = (content: string): HandlerResult => ({
  status: 200,
  text: { type: 'text/plain', content },
});

test('pipelined requests are handled one after another, in their order', async (t) => {
  let running = 0;
  let most = 0;
  const port = await serving(t, async ({ params }) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setImmediate(resolve));
    running--;
    return textAnswer(`answer ${params['id']};`);
  });
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write([1, 2, 3, 4, 5].map(requestFor).join(''));
  let received = '';
  for await (const piece of socket) {
    received += piece;
    if (received.includes('answer 5')) break;
  }
  assert.deepEqual(received.match(/answer \d/g), [
    'answer 1',
    'answer 2',
    'answer 3',
    'answer 4',
    'answer 5',
  ]);
  assert.equal(most, 1);
});

test('a client that does not read a late answer is disconnected like any other', async (t) => {
  const disconnected = Promise.withResolvers<void>();
  const handle = async ({ onDisconnect }: Call): Promise<HandlerResult> => {
    onDisconnect(() => disconnected.resolve());
    return textAnswer('x'.repeat(32 * 2 ** 20));
  };
  const port = await serving(t, handle, { idleMs: 100 });
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.pause();
  socket.on('error', () => undefined);
  socket.write(requestFor(1));
  await disconnected.promise;
});
