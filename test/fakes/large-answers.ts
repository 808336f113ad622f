/** A worker, in a thread of its own, that answers every execution with as large a result as the job asks for. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

const DIMENSIONS = 1024;

export interface LargeAnswers {
  readonly url: string;
  stop(): Promise<unknown>;
}

export async function largeAnswers(): Promise<LargeAnswers> {
  const thread = new Worker(new URL(import.meta.url));
  const port = await new Promise<number>((resolve, reject) =>
    thread.once('message', resolve).once('error', reject),
  );
  return { url: `http://127.0.0.1:${port}`, stop: () => thread.terminate() };
}

/** What a job asks for: in its own payload, or in one that came over /v1. */
interface Request {
  readonly embeddings?: number;
  readonly input?: readonly string[];
  readonly messages?: readonly { readonly content: string }[];
}

const TEXT = 'é"x\n'.repeat(3_000_000);
const TOOL_CALLS = 100_000;

function resultOf({ embeddings, input, messages }: Request): object {
  const asked = messages?.at(-1)?.content;
  if (asked === 'text') return { text: TEXT, finish_reason: 'stop' };
  if (asked === 'calls') {
    const call = (at: number): object => ({
      id: `c${at}`,
      type: 'function',
      function: { name: 'f', arguments: '{}' },
    });
    return {
      tool_calls: Array.from({ length: TOOL_CALLS }, (_, at) => call(at)),
      finish_reason: 'tool_calls',
    };
  }
  const one = Array.from({ length: DIMENSIONS }, (_, at) => Math.sin(at));
  return { embeddings: Array.from({ length: embeddings ?? input?.length ?? 0 }, () => one) };
}

function endEvent(request: Request): string {
  const data = { tokens_out: 0, decode_time_ms: 0, result: resultOf(request) };
  return `id: 1\nevent: end\ndata: ${JSON.stringify(data)}\n\n`;
}

function listen(): void {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    if (request.url !== '/execute') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"registry":"r1","remembered_since":0,"executions":[]}');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(endEvent(JSON.parse(body)));
  });
  // Longer than the pauses of a slow machine: a request on a connection that is just being closed may have been taken,
  // and this worker could not say so.
  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
}

if (!isMainThread) listen();
