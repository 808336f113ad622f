/** The baseline of a relay: a Node server that forwards each request and pipes the response to the client. */
import { Agent, createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Starts the server and returns its port. */
export async function start({ upstream }: { readonly upstream: number }): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const server = createServer((incoming, response) => {
    const { method, url: path } = incoming;
    const headers = aboutBody(incoming);
    const onward = request({ agent, host: '127.0.0.1', port: upstream, method, headers, path }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, { 'content-type': 'text/event-stream' });
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => {
    server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Only the headers of the body: the connection to upstream is kept alive, whatever the client requests for its own. */
function aboutBody({ headers }: IncomingMessage): Record<string, string> {
  const { 'content-type': type, 'content-length': length } = headers;
  return type === undefined || length === undefined ? {} : { 'content-type': type, 'content-length': length };
}
