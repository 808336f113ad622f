/** The least that Node can do: ask upstream for the same path and pipe the bytes of its answer to the client. */
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The port. */
export async function start({ upstream }: { readonly upstream: number }): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const server = createServer((asked, response) => {
    const onward = request({ agent, host: '127.0.0.1', port: upstream, path: asked.url }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, { 'content-type': 'text/event-stream' });
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    onward.end();
  });
  await new Promise<void>((resolve) => {
    server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, resolve);
  });
  return (server.address() as AddressInfo).port;
}
