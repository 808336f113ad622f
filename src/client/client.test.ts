import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { OrchdClient } from './client.ts';

test('a stream that is not from a brain is refused, not asked for again and again', async (t) => {
  let asked = 0;
  const server = createServer((_, response) => {
    asked++;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('id: 1.1\nevent: token\ndata: <html>\n\n');
  });
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = new OrchdClient({ url: `http://127.0.0.1:${port}` });
  await assert.rejects(client.events('a').next(), { code: 'WORKER_PROTOCOL' });
  assert.equal(asked, 1);
});
