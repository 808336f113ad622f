/** The least that Node can do: ask upstream the same and pipe the bytes of its answer to the client. */
import { Agent, createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The port. */
export async function start({ upstream }: { readonly upstream: number }): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const server = createServer((asked, response) => {
    const { method, url: path } = asked;
    const headers = aboutBody(asked);
    const onward = request({ agent, host: '127.0.0.1', port: upstream, method, headers, path }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, { 'content-type': 'text/event-stream' });
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    asked.pipe(onward);
  });
  await new Promise<void>((resolve) => {
    server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Not those of the connection: ours to upstream is kept whatever the client does with its own. */
function aboutBody({ headers }: IncomingMessage): Record<string, string> {
  const { 'content-type': type, 'content-length': length } = headers;
  return type === undefined || length === undefined ? {} : { 'content-type': type, 'content-length': length };
}
