/** A server that passes every request on to another one, but for those that it refuses; some answers it loses. */
import { createServer, type IncomingMessage, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

/**
 * `refuses`: the message with which a request is refused; undefined where it is passed on. `loses`: whether the answer to
 * a request that was passed on is lost. `until`: when a request is passed on. Returns the address.
 */
export async function proxyTo(
  t: Pick<TestContext, 'after'>,
  url: string,
  refuses: (request: IncomingMessage) => string | undefined,
  loses: (request: IncomingMessage) => boolean = () => false,
  until: (request: IncomingMessage) => Promise<void> | undefined = () => undefined,
): Promise<string> {
  const server = createServer(async (request, response) => {
    await until(request);
    const message = refuses(request);
    if (message !== undefined) {
      const error = { code: 'INTERNAL', message, retriable: false };
      response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
      return;
    }
    const { method, headers } = request;
    const isLost = loses(request);
    const onward = send(new URL(request.url ?? '/', url), { method, headers }, (answer) => {
      if (isLost) {
        answer.resume().on('end', () => response.destroy());
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
