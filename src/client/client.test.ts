import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ClientError, OrchdClient } from './client.ts';

/** Nothing listens at this port. */
const CLOSED_URL = 'http://127.0.0.1:2';

/** Starts a server that answers every request in this way; returns its URL. */
async function startServer(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that is not orchd: it answers every request with a web page. */
const startWebServer = (t: TestContext, status: number): Promise<string> =>
  startServer(t, (_, response) => {
    response.statusCode = status;
    response.end('<html>');
  });

/** The error of a call to this URL, which must be UNREACHABLE. */
async function unreachableError(url: string): Promise<ClientError> {
  const error = await new OrchdClient({ url }).get('a').catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ClientError, String(error));
  assert.equal(error.code, 'UNREACHABLE');
  assert.match(error.next ?? '', /orchd up/);
  return error;
}

test('events() fails with WORKER_PROTOCOL if an event is not JSON, and sends no second request', async (t) => {
  let requests = 0;
  const url = await startServer(t, (_, response) => {
    requests++;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('id: 1.1\nevent: token\ndata: <html>\n\n');
  });
  const client = new OrchdClient({ url });
  await assert.rejects(client.events('a').next(), { code: 'WORKER_PROTOCOL' });
  assert.equal(requests, 1);
});

test('a call to a URL without a brain fails with UNREACHABLE and names the address', async () => {
  const error = await unreachableError(`${CLOSED_URL}/`);
  assert.deepEqual([error.message, error.status], [`nothing answers at ${CLOSED_URL}`, 0]);
  assert.ok(error.retriable && error.cause instanceof TypeError);
});

test('the message of an error does not contain the password of the URL', async () => {
  const error = await unreachableError('http://me:secret@127.0.0.1:2');
  assert.equal(error.message, `${CLOSED_URL} cannot be reached`);
});

test('a call to a server that is not orchd fails with UNREACHABLE and is not retriable', async (t) => {
  const url = await startWebServer(t, 200);
  const error = await unreachableError(url);
  assert.deepEqual(
    [error.message, error.retriable],
    [`what answers at ${url} is not orchd (HTTP 200)`, false],
  );
});

test('a 5xx answer that is not from orchd is retriable: a proxy sends one while the brain is down', async (t) => {
  const error = await unreachableError(await startWebServer(t, 502));
  assert.equal(error.retriable, true);
});

test('a call whose answer breaks off fails with UNREACHABLE and is retriable', async (t) => {
  const url = await startServer(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 9 });
    response.write('{');
    response.destroy();
  });
  assert.ok((await unreachableError(url)).retriable);
});

test('events() from a server that is not orchd fails with UNREACHABLE', async (t) => {
  const client = new OrchdClient({ url: await startWebServer(t, 200) });
  await assert.rejects(client.events('a').next(), { code: 'UNREACHABLE' });
});

test('events() that is aborted while reconnecting ends without an error', async () => {
  const abort = new AbortController();
  const client = new OrchdClient({ url: CLOSED_URL });
  const codes: string[] = [];
  const onReconnect = (error: Error): void => {
    codes.push((error as ClientError).code);
    abort.abort();
  };
  assert.ok((await client.events('a', { signal: abort.signal, onReconnect }).next()).done);
  assert.deepEqual(codes, ['UNREACHABLE']);
});
