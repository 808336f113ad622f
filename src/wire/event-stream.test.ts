import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { turns } from '../../test/flow/flow-kit.ts';
import { VirtualEnv } from '../../test/flow/virtual-env.ts';
import { openEventStream } from './event-stream.ts';

const HEARTBEAT_MS = 15_000;

interface OpenedStream {
  readonly time: VirtualEnv;
  readonly client: Socket;
  readonly out: Writable;
  readonly response: ServerResponse;
  /** Number of calls of onClose. */
  readonly closed: () => number;
}

/** A stream whose client has sent its request and reads nothing yet. */
async function streamFor(
  t: TestContext,
  before: (request: IncomingMessage) => Promise<void> = async () => undefined,
): Promise<OpenedStream> {
  const time = new VirtualEnv();
  const opened = Promise.withResolvers<{ out: Writable; response: ServerResponse }>();
  let closed = 0;
  const server = createServer(async (request, response) => {
    await before(request);
    const out = openEventStream({
      request,
      response,
      timers: time.timers,
      heartbeatMs: HEARTBEAT_MS,
      onDrain: () => undefined,
      onClose: () => closed++,
    });
    opened.resolve({ out, response });
  });
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    allowHalfOpen: true,
  });
  client.pause();
  client.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
  t.after(() => client.destroy());
  return { time, client, ...(await opened.promise), closed: () => closed };
}

test('a client that reads slowly gets the whole stream, however many heartbeats pass after its end', async (t) => {
  const { time, client, out } = await streamFor(t);
  const BYTES = 32 * 2 ** 20;
  out.write('x'.repeat(BYTES));
  out.end();
  await turns(10);
  assert.ok(out.writableLength > 0, 'more than the kernel takes');
  for (let beat = 0; beat < 5; beat++) await time.pass(HEARTBEAT_MS);
  let bytes = 0;
  client.on('data', (piece) => {
    bytes += piece.length;
  });
  client.resume();
  await once(client, 'end');
  assert.ok(bytes > BYTES);
});

test('a client that stops reading after the end is disconnected after ten minutes', async (t) => {
  const { time, out, response, closed } = await streamFor(t);
  out.write('x'.repeat(32 * 2 ** 20));
  out.end();
  await turns(10);
  await time.pass(590_000);
  assert.equal(response.destroyed, false);
  await time.pass(3 * HEARTBEAT_MS);
  await turns(10);
  assert.deepEqual([response.destroyed, closed()], [true, 1]);
});

test('a stream is over when everything is sent, though its client keeps its side open for two heartbeats', async (t) => {
  const { time, client, out, closed } = await streamFor(t);
  client.resume();
  out.write('data: 1\n\n');
  out.end();
  await once(client, 'end');
  await turns(10);
  assert.equal(closed(), 1);
  const gone = once(client, 'close');
  client.on('error', () => undefined);
  await time.pass(3 * HEARTBEAT_MS);
  client.write('x');
  client.end();
  await gone;
  assert.equal(closed(), 1);
});

test('a stream whose client left before it began is over at once', async (t) => {
  let left: Promise<unknown> | undefined;
  const opened = streamFor(t, async (request) => {
    left = once(request.socket, 'close');
    request.socket.destroy();
    await left;
  });
  assert.equal((await opened).closed(), 1);
});
