/** The outbound client, against real servers that misbehave on purpose. */

import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import type { Cancel, Timers } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';
import { wasNotSent } from './exchange.ts';
import { type Address, Outbound, type OutboundLimits, type StreamReply, type Target } from './outbound.ts';
import { IDLE_CHECKS } from './response-body.ts';
import { eachEvent } from './sse-bytes.ts';

/** Timers that fire when the test says so; a test selects a timer by its length. */
class ManualTimers implements Timers {
  readonly #waits = new Set<{ readonly ms: number; readonly run: () => void }>();

  after(ms: number, run: () => void): Cancel {
    const wait = { ms, run };
    this.#waits.add(wait);
    return () => this.#waits.delete(wait);
  }

  soon(run: () => void): void {
    setImmediate(run);
  }

  pending(ms: number): number {
    return [...this.#waits].filter((wait) => wait.ms === ms).length;
  }

  get none(): boolean {
    return this.#waits.size === 0;
  }

  pass(ms: number): void {
    for (const wait of [...this.#waits]) {
      if (wait.ms !== ms) continue;
      this.#waits.delete(wait);
      wait.run();
    }
  }
}

/** A broken implementation would wait for ever. */
const TIMEOUT = { timeout: 20_000 };

const CONNECT_MS = 11;
const TIMEOUT_MS = 22;
const IDLE_MS = 36;
const IDLE_CHECK_MS = IDLE_MS / IDLE_CHECKS;

interface TestOutbound {
  readonly outbound: Outbound;
  readonly timers: ManualTimers;
}

function makeOutbound(
  t: TestContext,
  resolve?: (host: string) => Promise<readonly Address[]>,
  limits: Partial<OutboundLimits> = {},
): TestOutbound {
  const timers = new ManualTimers();
  const all = { connectMs: CONNECT_MS, timeoutMs: TIMEOUT_MS, idleMs: IDLE_MS, ...limits };
  const outbound = new Outbound({ timers, limits: all, ...(resolve && { resolve }) });
  t.after(() => outbound.close());
  return { outbound, timers };
}

async function listen(t: TestContext, server: ReturnType<typeof createTcp>, host: string, port = 0) {
  server.listen(port, host);
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

interface TestServer {
  readonly url: string;
  readonly port: number;
  /** Connections opened so far. */
  connections: number;
}

async function startServer(
  t: TestContext,
  handle: RequestListener,
  host = '127.0.0.1',
  port = 0,
): Promise<TestServer> {
  const server: Server = createServer(handle);
  t.after(() => server.closeAllConnections());
  const made = { url: '', port: 0, connections: 0 };
  server.on('connection', () => made.connections++);
  made.port = await listen(t, server, host, port);
  made.url = `http://${host}:${made.port}`;
  return made;
}

/** Starts a server that answers with raw bytes; `answer` gets the socket and the number of the request on it. */
async function startByteServer(
  t: TestContext,
  answer: (socket: Socket, request: number) => void,
): Promise<string> {
  const open = new Set<Socket>();
  const server = createTcp({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.on('error', () => undefined);
    let request = 0;
    socket.on('data', () => answer(socket, ++request));
  });
  t.after(() => {
    for (const socket of open) socket.destroy();
  });
  return `http://127.0.0.1:${await listen(t, server, '127.0.0.1')}`;
}

async function failureOf(call: Promise<unknown>): Promise<OrchdError> {
  const error = await call.then(
    () => undefined,
    (thrown) => thrown,
  );
  assert.ok(error instanceof OrchdError, `it failed with ${inspect(error)}`);
  return error;
}

const codeAndReason = ({ code, details }: OrchdError): unknown[] => [code, details.reason];

async function readText(reply: StreamReply): Promise<string> {
  let text = '';
  await reply.read((piece) => {
    text += piece;
  });
  return text;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

test(
  'a request returns the whole answer whatever its status, from a path below the base URL, over one kept connection',
  TIMEOUT,
  async (t) => {
    const { outbound, timers } = makeOutbound(t);
    const server = await startServer(t, (request, response) => {
      let body = '';
      request.on('data', (piece) => {
        body += piece;
      });
      request.on('end', () => {
        response.writeHead(body === '' ? 200 : 418, { 'x-received': request.headers['x-sent'] ?? '' });
        response.end(`${request.method} ${request.url} ${body}`);
      });
    });
    const target = outbound.to(`${server.url}/base/`);
    const got = await target.request({ path: '/a?b=c', headers: { 'x-sent': 'hello' } });
    assert.deepEqual(
      [got.status, got.headers['x-received'], got.body.toString()],
      [200, 'hello', 'GET /base/a?b=c '],
    );
    const posted = await target.request({ method: 'POST', path: '/p', body: 'text' });
    assert.deepEqual([posted.status, posted.body.toString()], [418, 'POST /base/p text']);
    await target.request({ path: '/' });
    assert.equal(server.connections, 1);
    assert.ok(timers.none, 'no timer is left');
  },
);

test('a redirect is an error, and its destination is never contacted', TIMEOUT, async (t) => {
  const { outbound } = makeOutbound(t);
  const other = await startServer(t, (_, response) => response.end('secret of the other'));
  const server = await startServer(t, (request, response) => {
    response.writeHead(Number(request.url?.slice(1)), { location: `${other.url}/?key=hidden` }).end();
  });
  const target = outbound.to(server.url);
  for (const status of [300, 301, 302, 303, 304, 307, 308]) {
    for (const error of [
      await failureOf(target.request({ path: `/${status}` })),
      await failureOf(target.stream({ path: `/${status}` })),
    ]) {
      assert.deepEqual(codeAndReason(error), ['WORKER_PROTOCOL', 'redirect'], String(status));
      assert.doesNotMatch(inspect(error), /hidden/);
    }
  }
  const { status, headers, close } = await target.stream({ path: '/302', returnsRedirects: true });
  assert.deepEqual([status, headers.location], [302, `${other.url}/?key=hidden`]);
  close();
  assert.equal(other.connections, 0, 'not even when the redirect is returned to the caller');
});

test(
  'a target resolves its host name once and ignores later changes; a new target resolves it again',
  TIMEOUT,
  async (t) => {
    const here = await startServer(t, (_, response) =>
      response.writeHead(200, { connection: 'close' }).end('here'),
    );
    const there = await startServer(t, (_, response) => response.end('there'), '127.0.0.2', here.port);
    const lookups: string[] = [];
    const { outbound } = makeOutbound(t, async (host) => {
      lookups.push(host);
      return [{ address: lookups.length === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }];
    });
    const target = outbound.to(`http://worker.test:${here.port}`);
    const answerText = async (): Promise<string> => (await target.request({ path: '/' })).body.toString();
    assert.deepEqual(await Promise.all([answerText(), answerText(), answerText()]), ['here', 'here', 'here']);
    assert.equal(await answerText(), 'here');
    assert.equal(await readText(await target.stream({ path: '/' })), 'here');
    assert.deepEqual([lookups, here.connections, there.connections], [['worker.test'], 5, 0]);
    const anew = outbound.to(`http://worker.test:${here.port}`);
    assert.equal((await anew.request({ path: '/' })).body.toString(), 'there');
  },
);

test('a host name that could not be resolved is looked up again by the next request', TIMEOUT, async (t) => {
  const server = await startServer(t, (_, response) => response.end('found'));
  let lookups = 0;
  const { outbound } = makeOutbound(t, async () => {
    if (++lookups === 1) throw new Error('no such name');
    return [{ address: '127.0.0.1', family: 4 }];
  });
  const target = outbound.to(`http://worker.test:${server.port}`);
  const error = await failureOf(target.request({ path: '/' }));
  assert.deepEqual(codeAndReason(error), ['WORKER_UNAVAILABLE', 'unreachable']);
  assert.ok(error.retriable && wasNotSent(error));
  assert.equal((await target.request({ path: '/' })).body.toString(), 'found');
});

test('an answer larger than the limit is an error, and its connection is closed', TIMEOUT, async (t) => {
  const { outbound } = makeOutbound(t);
  const stopped = Promise.withResolvers<void>();
  const server = await startServer(t, (_, response) => {
    const more = (): void => {
      while (response.write('x'.repeat(10_000)));
    };
    response.on('drain', more).on('close', () => stopped.resolve());
    more();
  });
  const target = outbound.to(server.url);
  const error = await failureOf(target.request({ path: '/', maxBytes: 50_000 }));
  assert.deepEqual(codeAndReason(error), ['WORKER_PROTOCOL', 'too_large']);
  await stopped.promise;
  const exact = await startServer(t, (_, response) => response.end('x'.repeat(1000)));
  assert.equal((await outbound.to(exact.url).request({ path: '/', maxBytes: 1000 })).body.length, 1000);
  await assert.rejects(outbound.to(exact.url).request({ path: '/', maxBytes: 999 }));
});

test('[ORCH-1120] a server that stalls before or within its answer causes a timeout', TIMEOUT, async (t) => {
  const { outbound, timers } = makeOutbound(t);
  const received = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const server = await startServer(t, (request, response) => {
    if (request.url === '/1') response.write('half of the ans');
    received[Number(request.url?.slice(1))]?.resolve();
  });
  for (const at of [0, 1]) {
    const failure = failureOf(outbound.to(server.url).request({ path: `/${at}` }));
    await received[at]?.promise;
    timers.pass(TIMEOUT_MS);
    const error = await failure;
    assert.deepEqual(codeAndReason(error), ['WORKER_TIMEOUT', 'timeout']);
    assert.ok(!wasNotSent(error), 'it may have been received');
  }
  assert.ok(timers.none);
});

test(
  '[ORCH-1120] a connection that is refused or takes too long is reported as not sent',
  TIMEOUT,
  async (t) => {
    const server = createTcp();
    const port = await listen(t, server, '127.0.0.1');
    server.close();
    const refused = await failureOf(
      makeOutbound(t).outbound.to(`http://127.0.0.1:${port}`).request({ path: '/' }),
    );
    assert.deepEqual(codeAndReason(refused), ['WORKER_UNAVAILABLE', 'unreachable']);
    assert.match(refused.message, /^GET http:\/\/127\.0\.0\.1:\d+: no connection \(ECONNREFUSED\)$/);
    const never = Promise.withResolvers<readonly Address[]>();
    const { outbound, timers } = makeOutbound(t, () => never.promise);
    const slow = failureOf(outbound.to('http://worker.test').request({ path: '/' }));
    timers.pass(CONNECT_MS);
    assert.deepEqual(codeAndReason(await slow), ['WORKER_UNAVAILABLE', 'unreachable']);
    for (const error of [refused, await slow]) assert.ok(wasNotSent(error) && error.retriable);
  },
);

test('a server that does not speak TLS gets no request over https', TIMEOUT, async (t) => {
  const server = await startServer(t, () => assert.fail('it got a request'));
  const target = makeOutbound(t).outbound.to(server.url.replace('http:', 'https:'));
  const error = await failureOf(target.request({ path: '/', headers: { authorization: 'Bearer x' } }));
  assert.deepEqual(codeAndReason(error), ['WORKER_UNAVAILABLE', 'unreachable']);
});

test('a stream is passed on as it arrives, and closed when it is silent for too long', TIMEOUT, async (t) => {
  const { outbound, timers } = makeOutbound(t);
  const closed = Promise.withResolvers<void>();
  let more = (): unknown => undefined;
  const server = await startServer(t, (_, response) => {
    response.on('close', () => closed.resolve());
    response.write('event: token\ndata: {"t":"a"}\n\nevent: tok');
    more = () => response.write('en\ndata: {"t":"b"}\n\ndata: cut');
  });
  const reply = await outbound.to(server.url).stream({ path: '/' });
  timers.pass(TIMEOUT_MS);
  const received: string[] = [];
  const failure = failureOf(eachEvent(reply, ({ data }) => received.push(data)));
  await until(() => received.length === 1);
  for (let check = 0; check < IDLE_CHECKS; check++) timers.pass(IDLE_CHECK_MS);
  more();
  await until(() => received.length === 2);
  for (let check = 0; check < IDLE_CHECKS; check++) timers.pass(IDLE_CHECK_MS);
  assert.equal(timers.pending(IDLE_CHECK_MS), 1, 'it has not been silent for long enough');
  timers.pass(IDLE_CHECK_MS);
  const error = await failure;
  assert.deepEqual(received, ['{"t":"a"}', '{"t":"b"}']);
  assert.deepEqual(codeAndReason(error), ['WORKER_TIMEOUT', 'idle']);
  await closed.promise;
});

test('a paused reader makes the sender wait, and the pause does not count as silence', TIMEOUT, async (t) => {
  const { outbound, timers } = makeOutbound(t);
  const PIECES = 300;
  let sent = 0;
  const server = await startServer(t, (_, response) => {
    const more = (): void => {
      while (sent < PIECES) {
        sent++;
        if (!response.write('x'.repeat(100_000))) return;
      }
      response.end();
    };
    response.on('drain', more);
    more();
  });
  const reply = await outbound.to(server.url).stream({ path: '/' });
  let bytesRead = 0;
  const paused = Promise.withResolvers<void>();
  const reading = reply.read((piece) => {
    if (bytesRead === 0) {
      reply.pause();
      paused.resolve();
    }
    bytesRead += piece.length;
  });
  await paused.promise;
  for (let check = 0; check < 3 * IDLE_CHECKS; check++) timers.pass(IDLE_CHECK_MS);
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(sent < PIECES, `${bytesRead} bytes were read`);
  reply.resume();
  await reading;
  assert.equal(bytesRead, PIECES * 100_000);
});

test('an abort ends a request at any time, and the server sees the connection close', TIMEOUT, async (t) => {
  const { outbound, timers } = makeOutbound(t);
  const closed: PromiseWithResolvers<void>[] = [];
  let begun = (): void => undefined;
  const server = await startServer(t, (request, response) => {
    const close = Promise.withResolvers<void>();
    closed.push(close);
    response.on('close', () => close.resolve());
    if (request.url !== '/silent') response.write('begun');
    begun();
  });
  const target = outbound.to(server.url);
  const isAborted = async (call: Promise<unknown>): Promise<void> => {
    assert.deepEqual(codeAndReason(await failureOf(call)), ['CANCELLED', 'aborted']);
  };
  await isAborted(target.request({ path: '/', signal: AbortSignal.abort() }));
  assert.equal(server.connections, 0, 'a request aborted before its start is not sent');
  for (const path of ['/silent', '/begun']) {
    const abort = new AbortController();
    begun = () => abort.abort();
    await isAborted(target.request({ path, signal: abort.signal }));
  }
  begun = () => undefined;
  const abort = new AbortController();
  const followed = await target.stream({ path: '/begun', signal: abort.signal });
  await isAborted(followed.read(() => abort.abort()));
  assert.equal(getEventListeners(abort.signal, 'abort').length, 0);
  const left = await target.stream({ path: '/begun' });
  const enough = new Error('enough');
  const leave = (): never => {
    throw enough;
  };
  await assert.rejects(left.read(leave), enough);
  const unread = await target.stream({ path: '/begun' });
  unread.close();
  await isAborted(readText(unread));
  assert.equal(closed.length, 5);
  await Promise.all(closed.map(({ promise }) => promise));
  assert.ok(timers.none);
});

test('an answer that breaks off is an error, not a short answer', TIMEOUT, async (t) => {
  const { outbound } = makeOutbound(t);
  const heads = [
    '',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nonly this\r\n',
  ];
  for (const head of heads) {
    for (const how of ['end', 'destroy'] as const) {
      const url = await startByteServer(t, (socket) => {
        socket.write(head, () => socket[how]());
      });
      const target = outbound.to(url);
      const error = await failureOf(target.request({ method: 'POST', path: '/' }));
      assert.deepEqual(codeAndReason(error), ['WORKER_UNAVAILABLE', 'connection_lost'], `${how}: ${head}`);
      assert.ok(!wasNotSent(error) && !error.retriable, 'it may have been received');
      const streamed = target.stream({ method: 'POST', path: '/' }).then(readText);
      assert.equal((await failureOf(streamed)).details.reason, 'connection_lost');
    }
  }
});

test(
  'a kept connection that the server has dropped is replaced for a GET; a POST is never sent twice',
  TIMEOUT,
  async (t) => {
    const { outbound } = makeOutbound(t);
    const received: number[] = [];
    const url = await startByteServer(t, (socket, request) => {
      received.push(request);
      if (request > 1) socket.destroy();
      else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
    });
    const target = outbound.to(url);
    await Promise.all([target.request({ path: '/' }), target.request({ path: '/' })]);
    assert.equal((await target.request({ path: '/' })).body.toString(), 'ok');
    assert.deepEqual(
      received,
      [1, 1, 2, 1],
      'repeated on a new connection: the other kept one may be dead too',
    );
    const again = outbound.to(url);
    await again.request({ path: '/' });
    const error = await failureOf(again.request({ method: 'POST', path: '/', body: 'once' }));
    assert.equal(error.details.reason, 'connection_lost');
    assert.deepEqual(received.slice(4), [1, 2]);
  },
);

test('a request that was sent once and cannot be sent again may have been received', TIMEOUT, async (t) => {
  const { outbound, timers } = makeOutbound(t);
  const server = createTcp((socket) => {
    let requests = 0;
    socket.on('error', () => undefined);
    socket.on('data', () => {
      if (++requests === 1) return socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
      server.close();
      return socket.destroy();
    });
  });
  const target = outbound.to(`http://127.0.0.1:${await listen(t, server, '127.0.0.1')}`);
  await target.request({ path: '/' });
  const error = await failureOf(target.request({ path: '/' }));
  assert.equal(error.details.reason, 'connection_lost');
  assert.equal(wasNotSent(error), false);
  assert.ok(timers.none);
});

test('a malformed answer is told apart from a lost connection', TIMEOUT, async (t) => {
  const { outbound } = makeOutbound(t);
  const answers = [
    '220 mail.example ESMTP\r\n',
    `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`,
    'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n',
  ];
  for (const answer of answers) {
    const url = await startByteServer(t, (socket) => socket.write(answer));
    const error = await failureOf(outbound.to(url).request({ path: '/' }));
    assert.deepEqual(codeAndReason(error), ['WORKER_PROTOCOL', 'malformed'], answer.slice(0, 40));
  }
});

test(
  'connections are limited: a request over the limit is refused at once, and streams never block calls',
  TIMEOUT,
  async (t) => {
    const { outbound } = makeOutbound(t, undefined, { maxCalls: 2, maxStreams: 3 });
    const held = new Set<() => void>();
    const server = await startServer(t, (_, response) => {
      response.write('.');
      held.add(() => response.end());
    });
    const target: Target = outbound.to(server.url);
    const streams = await Promise.all([1, 2, 3].map(() => target.stream({ path: '/' })));
    const calls = [1, 2].map(() => target.request({ path: '/' }));
    for (const call of [target.request({ path: '/' }), target.stream({ path: '/' })]) {
      const error = await failureOf(call);
      assert.deepEqual(codeAndReason(error), ['WORKER_UNAVAILABLE', 'busy']);
      assert.ok(wasNotSent(error) && error.retriable);
    }
    await until(() => held.size === 5);
    assert.equal(server.connections, 5);
    for (const end of held) end();
    await Promise.all([...calls, ...streams.map(readText)]);
    held.clear();
    const later = target.request({ path: '/' });
    await until(() => held.size === 1);
    for (const end of held) end();
    assert.equal((await later).status, 200);
  },
);

test(
  'closing the client closes its targets: requests in flight are aborted, new ones refused',
  TIMEOUT,
  async (t) => {
    const { outbound } = makeOutbound(t);
    const received = Promise.withResolvers<void>();
    const server = await startServer(t, () => received.resolve());
    const target = outbound.to(server.url);
    const call = failureOf(target.request({ path: '/' }));
    await received.promise;
    outbound.close();
    assert.equal((await call).details.reason, 'aborted');
    assert.equal((await failureOf(target.request({ path: '/' }))).details.reason, 'busy');
  },
);

test('a retired target completes requests in flight, and keeps no connection', TIMEOUT, async (t) => {
  const { outbound } = makeOutbound(t);
  const open = new Set<Socket>();
  let finish = (): void => undefined;
  const server = await startServer(t, (request, response) => {
    const { socket } = request;
    if (!open.has(socket)) socket.on('close', () => open.delete(socket));
    open.add(socket);
    response.write('be');
    if (request.url === '/slow') finish = () => response.end('gun');
    else response.end('gun');
  });
  const target = outbound.to(server.url);
  await target.request({ path: '/' });
  const slow = await target.stream({ path: '/slow' });
  assert.equal(open.size, 2);
  target.retire();
  await until(() => open.size === 1);
  finish();
  assert.equal(await readText(slow), 'begun');
  assert.equal((await target.request({ path: '/' })).status, 200, 'its holder may still send requests');
  await until(() => open.size === 0);
});

test(
  'only plain http and https URLs are accepted as targets, and an error does not quote them',
  TIMEOUT,
  (t) => {
    const { outbound } = makeOutbound(t);
    const bad = [
      '',
      'worker:9000/x y',
      '//worker',
      'ftp://worker/hidden',
      'file:///etc/hidden',
      'javascript:hidden',
      'http://user:hidden@worker',
      'http://hidden@worker',
      'http://worker/?key=hidden',
      'http://worker/#hidden',
      'http://user:hidden@[bad',
    ];
    for (const url of bad) {
      assert.throws(
        () => outbound.to(url),
        (error) => {
          assert.ok(error instanceof OrchdError && error.code === 'CONFIG_INVALID', url);
          return !inspect(error, { depth: 9 }).includes('hidden');
        },
      );
    }
  },
);

test('no error quotes a path, query, header or body', TIMEOUT, async (t) => {
  const { outbound, timers } = makeOutbound(t);
  const server = await startServer(t, (request, response) => {
    if (request.url?.includes('redirect')) response.writeHead(302, { location: '/canary' }).end('canary');
    else if (request.url?.includes('large')) response.end('canary'.repeat(100));
    else if (request.url?.includes('drop')) request.socket.destroy();
    else timers.pass(TIMEOUT_MS);
  });
  const target = outbound.to(server.url);
  const failureFor = (name: string, headers: Record<string, string> = {}) =>
    failureOf(
      target.request({
        method: 'POST',
        path: `/${name}/canary?key=canary`,
        headers: { authorization: 'Bearer canary', ...headers },
        body: 'canary',
        maxBytes: 10,
      }),
    );
  const errors = [
    await failureFor('redirect'),
    await failureFor('large'),
    await failureFor('drop'),
    await failureFor('stall'),
    await failureFor('bad', { 'x-bad': 'canary\r\ncanary: 1' }),
    await failureFor('bad path\u{1f98a}'),
  ];
  assert.deepEqual(
    errors.map(({ code, details }) => details.reason ?? code),
    ['redirect', 'too_large', 'connection_lost', 'timeout', 'INVALID_PARAMS', 'INVALID_PARAMS'],
  );
  for (const error of errors) assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /canary/);
});
