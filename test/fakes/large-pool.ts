/** A pool manager, in a thread of its own, that reports as many workers as it is told to, ready and at its own address. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import type { WorkerStatus } from '../../src/model/pool-wire.ts';

const DEVICES = 64;
const GIB = 2 ** 30;

export interface LargePool {
  readonly url: string;
  /** Changes how many workers it reports, and their status; resolves when the brain has handled that. */
  report(workers: number, status?: WorkerStatus): Promise<void>;
  stop(): Promise<unknown>;
}

export async function largePool(): Promise<LargePool> {
  const thread = new Worker(new URL(import.meta.url));
  const next = (): Promise<number> =>
    new Promise((resolve, reject) => thread.once('message', resolve).once('error', reject));
  const port = await next();
  return {
    url: `http://127.0.0.1:${port}`,
    async report(count, status = 'ready') {
      thread.postMessage({ count, status });
      await next();
    },
    stop: () => thread.terminate(),
  };
}

interface Told {
  readonly count: number;
  readonly status: WorkerStatus;
}

/** Its models and registries change with every report: each of its workers is another one. */
function stateOf(version: number, { count, status }: Told, uri: string): string {
  const workers = Array.from({ length: count }, (_, at) => ({
    id: `w${version}-${at}`,
    model_ref: `file:/models/${version}-${at}.gguf`,
    gpu: at % DEVICES,
    vram_used: GIB,
    uri,
    status,
    started_at: '2026-01-01T00:00:00Z',
    slots: 4,
    context_length: 8192,
    registry: `r${version}-${at}`,
    token: 'x'.repeat(64),
    features: ['chat', 'embeddings', 'tools', 'json_schema'],
  }));
  const gpus = Array.from({ length: DEVICES }, (_, id) => ({
    id,
    total_vram: 80 * GIB,
    allocated_vram: 0,
    available_vram: 80 * GIB,
    workers: workers.filter(({ gpu }) => gpu === id).map((worker) => worker.id),
  }));
  return JSON.stringify({ pool_id: 'large', registry: 'r', version, gpus, workers });
}

function listen(): void {
  let version = 1;
  let told: Told = { count: 0, status: 'ready' };
  let sent = 2;
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    if (!request.url?.startsWith('/v2/state')) return response.end('{}');
    const uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    response.end(stateOf(version, told, uri));
    // The second poll comes when the brain has handled the first.
    if (sent++ === 1) parentPort?.postMessage(version);
  });
  parentPort?.on('message', (next: Told) => {
    told = next;
    version++;
    sent = 0;
  });
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
}

if (!isMainThread) listen();
