import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ClientError, OrchdClient } from './client.ts';

async function listen(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a stream that is not from a brain is an error, and is not requested again', async (t) => {
  let requests = 0;
  const url = await listen(t, (_, response) => {
    requests++;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('id: 1.1\nevent: token\ndata: <html>\n\n');
  });
  const client = new OrchdClient({ url });
  await assert.rejects(client.events('a').next(), { code: 'WORKER_PROTOCOL' });
  assert.equal(requests, 1);
});

/** The error of a call to that URL. */
async function errorFrom(url: string): Promise<ClientError> {
  const error = await new OrchdClient({ url }).get('a').catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ClientError, String(error));
  assert.equal(error.code, 'UNREACHABLE');
  assert.match(error.next ?? '', /orchd up/);
  return error;
}

test('without an answer from a brain the error code is UNREACHABLE, and the message names the URL', async (t) => {
  const refused = await errorFrom('http://127.0.0.1:2/');
  assert.deepEqual([refused.message, refused.status], ['nothing answers at http://127.0.0.1:2', 0]);
  assert.ok(refused.retriable && refused.cause instanceof TypeError);
  const secret = await errorFrom('http://me:secret@127.0.0.1:2');
  assert.equal(secret.message, 'http://127.0.0.1:2 cannot be reached');
  const page = await listen(t, (request, response) => {
    response.statusCode = request.url?.startsWith('/down') ? 502 : 200;
    response.end('<html>');
  });
  const foreign = await errorFrom(page);
  assert.deepEqual(
    [foreign.message, foreign.retriable],
    [`what answers at ${page} is not orchd (HTTP 200)`, false],
  );
  assert.equal((await errorFrom(`${page}/down`)).retriable, true);
  const truncated = await listen(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 9 });
    response.write('{');
    response.destroy();
  });
  assert.ok((await errorFrom(truncated)).retriable);
  const stream = new OrchdClient({ url: page }).events('a').next();
  await assert.rejects(stream, { code: 'UNREACHABLE' });
});

test('an aborted follower gets no error, although the brain cannot be reached', async () => {
  const abort = new AbortController();
  const client = new OrchdClient({ url: 'http://127.0.0.1:2' });
  const codes: string[] = [];
  const onReconnect = (error: Error): void => {
    codes.push((error as ClientError).code);
    abort.abort();
  };
  assert.ok((await client.events('a', { signal: abort.signal, onReconnect }).next()).done);
  assert.deepEqual(codes, ['UNREACHABLE']);
});
