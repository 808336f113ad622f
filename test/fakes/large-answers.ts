/** A worker, in a thread of its own, that answers every execution with as many embeddings as the job asks for. */
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

function endEvent(count: number): string {
  const one = Array.from({ length: DIMENSIONS }, (_, at) => Math.sin(at));
  const result = { embeddings: Array.from({ length: count }, () => one) };
  return `id: 1\nevent: end\ndata: ${JSON.stringify({ tokens_out: 0, decode_time_ms: 0, result })}\n\n`;
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
    response.end(endEvent((JSON.parse(body) as { embeddings: number }).embeddings));
  });
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
}

if (!isMainThread) listen();
