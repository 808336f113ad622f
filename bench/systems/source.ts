/**
 * The model behind all relays: one process, so that every relay reads the same source at the same pace. It streams
 * numbered tokens as worker events (`GET /?everyMs=M`; `POST /execute` from a brain, which finds it through the pool
 * manager stub) or in the OpenAI format (`POST /v1/chat/completions`). The request contains `everyMs=M`, the time
 * between two tokens, and optionally `tokens=N`, their number. With `everyMs=0` tokens are sent as fast as the client
 * reads them, from `GET /begin` on. `GET /end` ends all streams; the end of a stream has the number of tokens sent.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { now } from '../kit/numbers.ts';
import { answerAsPool, MODEL, type OnlyWorker } from './pool-stub.ts';

/** The number of digits of a token's text, which is its number: clients detect missing tokens by it. */
export const DIGITS = 8;
/** Tokens per write of a stream without a pace. */
const BLOCK = 50;
/** More streams than any bench opens. */
const SLOTS = 10_000;

/** Streams that began before this time end. */
let endedAt = Number.NEGATIVE_INFINITY;
/** Streams without a pace, held back until all are open: one that runs would keep others from opening. */
const waiting: (() => void)[] = [];

/** The wire format of a stream. */
interface StreamFormat {
  readonly first: string;
  token(n: number): string;
  last(sent: number): string;
}

const digits = (n: number): string => String(n).padStart(DIGITS, '0');

const asWorker: StreamFormat = {
  first: 'id: 1\nevent: started\ndata: {"job_id":"bench","started_at":0}\n\n',
  token: (n) => `id: ${n + 2}\nevent: token\ndata: {"t":"${digits(n)}","i":${n}}\n\n`,
  last: (sent) => `id: ${sent + 2}\nevent: end\ndata: ${JSON.stringify(endOf(sent))}\n\n`,
};

const endOf = (sent: number): object => ({
  tokens_out: sent,
  decode_time_ms: 0,
  result: { sent, finish_reason: 'stop', usage: usageOf(sent) },
});

const usageOf = (sent: number): object => ({ prompt_tokens: 1, completion_tokens: sent });

const chunk = (delta: object, reason: string | null, usage?: object): string =>
  `data: ${JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion.chunk',
    created: 0,
    model: MODEL,
    choices: [{ index: 0, delta, finish_reason: reason }],
    ...(usage && { usage }),
  })}\n\n`;

const asOpenAi: StreamFormat = {
  first: '',
  token: (n) => chunk({ content: digits(n) }, null),
  last: (sent) => `${chunk({}, 'stop', usageOf(sent))}data: [DONE]\n\n`,
};

/** Starts the server and returns its port. */
export async function start(): Promise<number> {
  let worker: OnlyWorker;
  const server = createServer((request, response) => {
    response.on('error', () => undefined);
    if (!answerAsPool(worker, request, response)) answer(request, response);
  });
  // Longer than any bench: closing a connection just as the bare pipe reuses it would fail that request.
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
  if (url === '/v1/chat/completions') return withBody(request, (body) => stream(response, body, asOpenAi));
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

function stream(response: ServerResponse, request: string, format: StreamFormat): void {
  const everyMs = Number(/everyMs=(\d+)/.exec(request)?.[1]);
  const tokens = Number(/tokens=(\d+)/.exec(request)?.[1] ?? Number.POSITIVE_INFINITY);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (everyMs > 0) pace(response, format, everyMs, tokens);
  else flood(response, format);
}

/** Sends tokens by the clock, not by the previous timer: late timers would bunch all streams together. */
function pace(response: ServerResponse, format: StreamFormat, everyMs: number, tokens: number): void {
  const begin = now();
  let sent = 0;
  const next = (): void => {
    if (response.destroyed) return;
    if (begin < endedAt || sent >= tokens) return void response.end(format.last(sent));
    const text = format.token(sent);
    response.write(sent === 0 ? format.first + text : text);
    sent++;
    setTimeout(next, Math.max(1, begin + sent * everyMs - now()));
  };
  next();
}

function flood(response: ServerResponse, format: StreamFormat): void {
  const begin = now();
  let sent = 0;
  const fill = (): void => {
    for (;;) {
      if (response.destroyed) return;
      if (begin < endedAt) return void response.end(format.last(sent));
      let block = '';
      for (let at = 0; at < BLOCK; at++) block += format.token(sent++);
      if (!response.write(block)) break;
    }
    response.once('drain', fill);
  };
  response.write(format.first + format.token(sent++));
  waiting.push(fill);
}
