/** Starts answers, cancels each after a few tokens, and measures how long its worker still produces tokens. */
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Values } from '../kit/bench.ts';
import { Meter } from '../kit/meter.ts';
import { quantile, sharedNow } from '../kit/numbers.ts';
import type { ExecutionEnd } from '../systems/demo-worker.ts';
import { MODEL } from '../systems/pool-stub.ts';

/** The number of tokens to receive before the cancel. */
const TOKENS = 5;
/** The cancel comes after a random delay up to this. */
const SPREAD_MS = 20;
/** Words of the prompt, which the demo engine repeats: more than it can produce before the cancel. */
const WORDS = 5000;

export interface CancelLoad {
  readonly folder: string;
  readonly port: number;
  /** The port of the pool manager, which reports when the worker sent its last token. */
  readonly poolPort: number;
  readonly pids: readonly number[];
  /** `order`: POST /v2/tasks/{id}/cancel. `leave`: the stream of /v1 is closed. */
  readonly how: 'order' | 'leave';
  readonly cancels: number;
}

/** Measures the time from the cancel to the worker's last token (0 where none came after it), and to its end. */
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

async function cancelByOrder(load: CancelLoad): Promise<ExecutionEnd> {
  const { mark, prompt } = nextMark();
  const submitted = await textOf(load.port, '/v2/tasks', { type: 'inference', model: MODEL, prompt });
  const { job_id } = JSON.parse(submitted) as { job_id: string };
  const { response } = await open(load.port, `/v2/tasks/${job_id}/events`);
  await tokensOf(response, 'event: token');
  const begin = sharedNow();
  await textOf(load.port, `/v2/tasks/${job_id}/cancel`, {});
  response.destroy();
  return sinceBegin(load, mark, begin);
}

async function cancelByLeaving(load: CancelLoad): Promise<ExecutionEnd> {
  const { mark, prompt } = nextMark();
  const messages = [{ role: 'user', content: prompt }];
  const { clientRequest, response } = await open(load.port, '/v1/chat/completions', {
    model: MODEL,
    stream: true,
    messages,
  });
  await tokensOf(response, '"content":');
  const begin = sharedNow();
  clientRequest.destroy();
  return sinceBegin(load, mark, begin);
}

async function sinceBegin({ poolPort }: CancelLoad, mark: string, begin: number): Promise<ExecutionEnd> {
  const { lastToken, ended } = JSON.parse(await textOf(poolPort, `/over?mark=${mark}`)) as ExecutionEnd;
  return { lastToken: lastToken - begin, ended: ended - begin };
}

/**
 * Resolves a random time after TOKENS tokens. Resolving right after a token would put every cancel at the same point
 * between two tokens.
 */
function tokensOf(response: IncomingMessage, sign: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let count = 0;
    // The stream is destroyed on purpose after the cancel.
    response.on('error', () => undefined);
    response.on('close', () => reject(new Error('a stream ended too early')));
    response.setEncoding('latin1');
    response.on('data', (text: string) => {
      count += text.split(sign).length - 1;
      if (count >= TOKENS) setTimeout(resolve, Math.random() * SPREAD_MS);
    });
  });
}

interface OpenResponse {
  readonly clientRequest: ClientRequest;
  readonly response: IncomingMessage;
}

/** Sends a request on a connection of its own; resolves once the response has started. */
function open(port: number, path: string, body?: object): Promise<OpenResponse> {
  const method = body ? 'POST' : 'GET';
  const headers = body ? { 'content-type': 'application/json' } : {};
  return new Promise((resolve, reject) => {
    const clientRequest = request(
      { agent: false, host: '127.0.0.1', port, path, method, headers },
      (response) => {
        if ((response.statusCode ?? 0) < 300) resolve({ clientRequest, response });
        else reject(new Error(`${method} ${path}: ${response.statusCode}`));
      },
    );
    clientRequest.on('error', reject);
    clientRequest.end(body && JSON.stringify(body));
  });
}

async function textOf(port: number, path: string, body?: object): Promise<string> {
  const { response } = await open(port, path, body);
  let text = '';
  for await (const piece of response) text += piece;
  return text;
}
