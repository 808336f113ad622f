/**
 * The model at the far end: `GET /?everyMs=M` streams numbered tokens as server-sent events, one every M
 * milliseconds or, at 0, as fast as the reader takes them, from `GET /begin` on. `GET /end` ends the streams that
 * there are; each says last how many tokens it has sent.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { now } from '../kit/numbers.ts';

/** Of a token's number, which is its text: readers see by it that nothing is missing. */
export const DIGITS = 8;
/** Tokens in one write where nothing holds it back. */
const BLOCK = 50;

/** Streams that began before this moment are over. */
let endedAt = Number.NEGATIVE_INFINITY;
/** Floods that wait until all streams are open: one that runs keeps others from opening. */
const waiting: (() => void)[] = [];

/** The port. */
export async function start(): Promise<number> {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://upstream');
    if (pathname === '/end') endedAt = now();
    if (pathname === '/begin') for (const begin of waiting.splice(0)) begin();
    if (pathname !== '/') {
      response.end();
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.on('error', () => undefined);
    const everyMs = Number(searchParams.get('everyMs'));
    if (everyMs > 0) pace(response, everyMs);
    else flood(response);
  });
  // Longer than any bench: a connection that is closed just as it is taken up again would fail the bare pipe.
  server.keepAliveTimeout = 600_000;
  await new Promise<void>((resolve) => {
    server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** By the clock and not by the last timer: late timers would gather all streams in the same moments. */
function pace(response: ServerResponse, everyMs: number): void {
  const begin = now();
  let sent = 0;
  const next = (): void => {
    if (response.destroyed) return;
    if (begin < endedAt) return finish(response, sent);
    response.write(token(sent++));
    setTimeout(next, Math.max(1, begin + sent * everyMs - now()));
  };
  next();
}

function flood(response: ServerResponse): void {
  const begin = now();
  let sent = 0;
  const fill = (): void => {
    for (;;) {
      if (response.destroyed) return;
      if (begin < endedAt) return finish(response, sent);
      let block = '';
      for (let at = 0; at < BLOCK; at++) block += token(sent++);
      if (!response.write(block)) break;
    }
    response.once('drain', fill);
  };
  response.write(token(sent++));
  waiting.push(fill);
}

const token = (n: number): string =>
  `event: token\ndata: {"t":"${String(n).padStart(DIGITS, '0')}","i":${n}}\n\n`;

const finish = (response: ServerResponse, sent: number): void =>
  void response.end(`event: end\ndata: {"result":${sent}}\n\n`);
