/**
 * The model at the far end, one process for all who relay it, so that all read the same source at the same pace. It
 * streams numbered tokens as the events of a worker (`GET /?everyMs=M`, and `POST /execute` with a pool manager's
 * state before it, which is how a brain comes here) or as OpenAI does (`POST /v1/chat/completions`). What is asked
 * has somewhere in it `everyMs=M`, the time between two tokens, and `tokens=N` where there is to be an end of them;
 * at 0 milliseconds they go as fast as the reader takes them, from `GET /begin` on. `GET /end` ends the streams that
 * there are; each says last how many tokens it has sent.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { now } from '../kit/numbers.ts';
import { answerAsPool, MODEL, type OnlyWorker } from './pool-stub.ts';

/** Of a token's number, which is its text: readers see by it that nothing is missing. */
export const DIGITS = 8;
/** Tokens in one write where nothing holds it back. */
const BLOCK = 50;
/** More than any shape opens. */
const SLOTS = 10_000;

/** Streams that began before this moment are over. */
let endedAt = Number.NEGATIVE_INFINITY;
/** Floods that wait until all streams are open: one that runs keeps others from opening. */
const waiting: (() => void)[] = [];

/** How a stream is written. */
interface Tongue {
  readonly first: string;
  token(n: number): string;
  last(sent: number): string;
}

const digits = (n: number): string => String(n).padStart(DIGITS, '0');

const asWorker: Tongue = {
  first: 'id: 1\nevent: started\ndata: {"job_id":"bench","started_at":0}\n\n',
  token: (n) => `id: ${n + 2}\nevent: token\ndata: {"t":"${digits(n)}","i":${n}}\n\n`,
  last: (sent) => `id: ${sent + 2}\nevent: end\ndata: ${JSON.stringify(endOf(sent))}\n\n`,
};

const endOf = (sent: number): object => ({
  tokens_out: sent,
  decode_time_ms: 0,
  result: { sent, finish_reason: 'stop', usage: { prompt_tokens: 1, completion_tokens: sent } },
});

const chunk = (delta: object, reason: string | null): string =>
  `data: ${JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion.chunk',
    created: 0,
    model: MODEL,
    choices: [{ index: 0, delta, finish_reason: reason }],
  })}\n\n`;

const asOpenAi: Tongue = {
  first: '',
  token: (n) => chunk({ content: digits(n) }, null),
  last: () => `${chunk({}, 'stop')}data: [DONE]\n\n`,
};

/** The port. */
export async function start(): Promise<number> {
  let worker: OnlyWorker;
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    if (!answerAsPool(worker, request, response)) answer(request, response);
  });
  // Longer than any bench: a connection that is closed just as it is taken up again would fail the bare pipe.
  server.keepAliveTimeout = 600_000;
  await new Promise<void>((resolve) => {
    server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, resolve);
  });
  const { port } = server.address() as AddressInfo;
  worker = { uri: `http://127.0.0.1:${port}`, slots: SLOTS, registry: 'bench' };
  return port;
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const url = request.url ?? '/';
  if (url === '/execute') return withBody(request, (body) => stream(response, body, asWorker));
  if (url.startsWith('/v1/')) return withBody(request, (body) => stream(response, body, asOpenAi));
  request.resume();
  if (url.startsWith('/?')) return stream(response, url, asWorker);
  if (url === '/end') endedAt = now();
  if (url === '/begin') for (const begin of waiting.splice(0)) begin();
  if (url.endsWith('/ack')) response.writeHead(204);
  response.end();
}

function withBody(request: IncomingMessage, use: (body: string) => void): void {
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (text: string) => {
    body += text;
  });
  request.on('end', () => use(body));
}

function stream(response: ServerResponse, asked: string, tongue: Tongue): void {
  const everyMs = Number(/everyMs=(\d+)/.exec(asked)?.[1]);
  const tokens = Number(/tokens=(\d+)/.exec(asked)?.[1] ?? Number.POSITIVE_INFINITY);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (everyMs > 0) pace(response, tongue, everyMs, tokens);
  else flood(response, tongue);
}

/** By the clock and not by the last timer: late timers would gather all streams in the same moments. */
function pace(response: ServerResponse, tongue: Tongue, everyMs: number, tokens: number): void {
  const begin = now();
  let sent = 0;
  const next = (): void => {
    if (response.destroyed) return;
    if (begin < endedAt || sent >= tokens) return void response.end(tongue.last(sent));
    const text = tongue.token(sent);
    response.write(sent === 0 ? tongue.first + text : text);
    sent++;
    setTimeout(next, Math.max(1, begin + sent * everyMs - now()));
  };
  next();
}

function flood(response: ServerResponse, tongue: Tongue): void {
  const begin = now();
  let sent = 0;
  const fill = (): void => {
    for (;;) {
      if (response.destroyed) return;
      if (begin < endedAt) return void response.end(tongue.last(sent));
      let block = '';
      for (let at = 0; at < BLOCK; at++) block += tongue.token(sent++);
      if (!response.write(block)) break;
    }
    response.once('drain', fill);
  };
  response.write(tongue.first + tongue.token(sent++));
  waiting.push(fill);
}
