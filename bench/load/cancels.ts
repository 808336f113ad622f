/** Begins answers, and cancels each when it has come to a few tokens: how long does its worker go on? */
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Values } from '../kit/bench.ts';
import { Meter } from '../kit/meter.ts';
import { quantile, sharedNow } from '../kit/numbers.ts';
import type { Over } from '../systems/demo-worker.ts';
import { MODEL } from '../systems/pool-stub.ts';

/** Of the answer that are awaited before it is cancelled. */
const TOKENS = 5;
const SPREAD_MS = 20;
/** Words of the prompt, which the demo engine repeats: far more than it comes to say. */
const WORDS = 5000;

export interface CancelLoad {
  readonly folder: string;
  readonly port: number;
  /** Of the pool manager, who knows when the worker said something last. */
  readonly poolPort: number;
  readonly pids: readonly number[];
  /** `order`: POST /v2/tasks/{id}/cancel. `leave`: the stream of /v1 is closed. */
  readonly how: 'order' | 'leave';
  readonly cancels: number;
}

/** How long after the order, or the leaving, the last token came, which is no time where none came, and the end. */
export async function measure(load: CancelLoad): Promise<Values> {
  const cancel = load.how === 'order' ? cancelByOrder : cancelByLeaving;
  for (let at = 0; at < load.cancels / 10; at++) await cancel(load);
  const meter = new Meter(load.folder, [], load.pids);
  const tokens: number[] = [];
  const ends: number[] = [];
  for (let at = 0; at < load.cancels; at++) {
    const { lastToken, ended } = await cancel(load);
    tokens.push(Math.max(0, lastToken));
    ends.push(ended);
  }
  return {
    p50Ms: quantile(tokens, 0.5),
    p99Ms: quantile(tokens, 0.99),
    maxMs: Math.max(...tokens),
    endP50Ms: quantile(ends, 0.5),
    endP99Ms: quantile(ends, 0.99),
    cancels: tokens.length,
    otherCores: meter.read().otherCores,
  };
}

let marks = 0;

const nextMark = (): { mark: string; prompt: string } => {
  const mark = `mark-${process.pid}${++marks}`;
  return { mark, prompt: `${mark} ${'word '.repeat(WORDS)}` };
};

async function cancelByOrder(load: CancelLoad): Promise<Over> {
  const { mark, prompt } = nextMark();
  const submitted = await textOf(load.port, '/v2/tasks', { type: 'inference', model: MODEL, prompt });
  const { job_id } = JSON.parse(submitted) as { job_id: string };
  const { response } = await opened(load.port, `/v2/tasks/${job_id}/events`);
  await tokensOf(response, 'event: token');
  const begin = sharedNow();
  await textOf(load.port, `/v2/tasks/${job_id}/cancel`, {});
  response.destroy();
  return sinceBegin(load, mark, begin);
}

async function cancelByLeaving(load: CancelLoad): Promise<Over> {
  const { mark, prompt } = nextMark();
  const messages = [{ role: 'user', content: prompt }];
  const { asked, response } = await opened(load.port, '/v1/chat/completions', {
    model: MODEL,
    stream: true,
    messages,
  });
  await tokensOf(response, '"content":');
  const begin = sharedNow();
  asked.destroy();
  return sinceBegin(load, mark, begin);
}

async function sinceBegin({ poolPort }: CancelLoad, mark: string, begin: number): Promise<Over> {
  const { lastToken, ended } = JSON.parse(await textOf(poolPort, `/over?mark=${mark}`)) as Over;
  return { lastToken: lastToken - begin, ended: ended - begin };
}

/** Settles at any moment after so many have come: right after one the next would always be as far away as can be. */
function tokensOf(response: IncomingMessage, sign: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let count = 0;
    // It is cut off on purpose in the end.
    response.on('error', () => undefined);
    response.on('close', () => reject(new Error('a stream ended too early')));
    response.setEncoding('latin1');
    response.on('data', (text: string) => {
      count += text.split(sign).length - 1;
      if (count >= TOKENS) setTimeout(resolve, Math.random() * SPREAD_MS);
    });
  });
}

interface Opened {
  readonly asked: ClientRequest;
  readonly response: IncomingMessage;
}

/** On a new connection each time, which ends with it. */
function opened(port: number, path: string, body?: object): Promise<Opened> {
  const method = body ? 'POST' : 'GET';
  const headers = body ? { 'content-type': 'application/json' } : {};
  return new Promise((resolve, reject) => {
    const asked = request({ agent: false, host: '127.0.0.1', port, path, method, headers }, (response) => {
      if ((response.statusCode ?? 0) < 300) resolve({ asked, response });
      else reject(new Error(`${method} ${path}: ${response.statusCode}`));
    });
    asked.on('error', reject);
    asked.end(body && JSON.stringify(body));
  });
}

async function textOf(port: number, path: string, body?: object): Promise<string> {
  const { response } = await opened(port, path, body);
  let text = '';
  for await (const piece of response) text += piece;
  return text;
}
