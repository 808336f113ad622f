/** A host that nobody should be sent to. It writes down every request that it gets, with all headers. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

export interface ForeignHost {
  readonly url: string;
  readonly got: { readonly path: string; readonly headers: IncomingHttpHeaders }[];
}

export async function foreignHost(t: TestContext): Promise<ForeignHost> {
  const got: ForeignHost['got'] = [];
  const server = createServer((request, response) => {
    got.push({ path: request.url ?? '', headers: request.headers });
    response.end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, got };
}
