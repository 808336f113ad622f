import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ClientError, OrchdClient } from './client.ts';

async function listening(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a stream that is not from a brain is refused, not asked for again and again', async (t) => {
  let asked = 0;
  const url = await listening(t, (_, response) => {
    asked++;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('id: 1.1\nevent: token\ndata: <html>\n\n');
  });
  const client = new OrchdClient({ url });
  await assert.rejects(client.events('a').next(), { code: 'WORKER_PROTOCOL' });
  assert.equal(asked, 1);
});

/** What a call on that address is refused with. */
async function refusal(url: string): Promise<ClientError> {
  const error = await new OrchdClient({ url }).get('a').catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ClientError, String(error));
  assert.equal(error.code, 'UNREACHABLE');
  assert.match(error.next ?? '', /orchd up/);
  return error;
}

test('where no brain answers the code says so, and the message where that is', async (t) => {
  const gone = await refusal('http://127.0.0.1:2/');
  assert.deepEqual([gone.message, gone.status], ['nothing answers at http://127.0.0.1:2', 0]);
  assert.ok(gone.retriable && gone.cause instanceof TypeError);
  const secret = await refusal('http://me:secret@127.0.0.1:2');
  assert.equal(secret.message, 'http://127.0.0.1:2 cannot be reached');
  const page = await listening(t, (request, response) => {
    response.statusCode = request.url?.startsWith('/down') ? 502 : 200;
    response.end('<html>');
  });
  const stranger = await refusal(page);
  assert.deepEqual(
    [stranger.message, stranger.retriable],
    [`what answers at ${page} is not orchd (HTTP 200)`, false],
  );
  assert.equal((await refusal(`${page}/down`)).retriable, true);
  const half = await listening(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 9 });
    response.write('{');
    response.destroy();
  });
  assert.ok((await refusal(half)).retriable);
  const refused = new OrchdClient({ url: page }).events('a').next();
  await assert.rejects(refused, { code: 'UNREACHABLE' });
});

test('who follows a job and gives up hears nothing of an address where nobody is', async () => {
  const leave = new AbortController();
  const client = new OrchdClient({ url: 'http://127.0.0.1:2' });
  const seen: string[] = [];
  const onReconnect = (error: Error): void => {
    seen.push((error as ClientError).code);
    leave.abort();
  };
  assert.ok((await client.events('a', { signal: leave.signal, onReconnect }).next()).done);
  assert.deepEqual(seen, ['UNREACHABLE']);
});
