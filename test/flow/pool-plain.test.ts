/**
 * A pool manager that says no more than the sample of the specification: its state has neither registries nor a version,
 * it names its workers itself, and its start order is not idempotent. Its workers are real ones.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { serve, testFolder } from './server-process.ts';
import { ABOUT, Client, MIB } from './site-client.ts';
import { endsOf, QUICK } from './site-kit.ts';
import { readyWorker, type WorkerProcess } from './worker-kit.ts';

const TOTAL = 1000 * MIB;
const USED = 600 * MIB;
/** The first device is too small for any model here. */
const GPU = 1;
const SMALL = { id: 0, total_vram: MIB, allocated_vram: 0, available_vram: MIB, workers: [] };

interface PlainWorker {
  readonly id: string;
  readonly model_ref: string;
  readonly gpu: number;
  readonly started_at: string;
  status: 'starting' | 'ready';
  process: WorkerProcess | undefined;
}

class PlainManager {
  readonly orders: string[] = [];
  readonly #t: TestContext;
  readonly #workers: PlainWorker[] = [];
  #url = '';

  constructor(t: TestContext) {
    this.#t = t;
  }

  get url(): string {
    return this.#url;
  }

  async listen(): Promise<this> {
    const server = createServer(async (request, response) => {
      let body = '';
      for await (const piece of request) body += piece;
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(this.#answer(request.url ?? '', body)));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.#t.after(() => server.close());
    this.#url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return this;
  }

  #answer(path: string, body: string): object {
    if (path.startsWith('/v2/state')) return this.#state();
    // Not in the specification: an answer in another form than ours.
    if (path.startsWith('/v2/models')) return {};
    const { model_ref, gpu_id, worker_id } = JSON.parse(body);
    this.orders.push(`${path} ${model_ref ?? worker_id}`);
    if (path === '/v2/workers/start') return this.start(model_ref, gpu_id);
    const at = this.#workers.findIndex(({ id }) => id === worker_id);
    if (path === '/v2/workers/stop') void this.#workers.splice(at, 1)[0]?.process?.kill();
    return {};
  }

  start(model_ref: string, gpu: number): object {
    const id = `worker-${this.#workers.length + 1}`;
    const started_at = new Date().toISOString();
    const worker: PlainWorker = { id, model_ref, gpu, started_at, status: 'starting', process: undefined };
    this.#workers.push(worker);
    void readyWorker(this.#t, ['--engine', 'demo', '--model', model_ref, '--slots', '2']).then((process) => {
      worker.process = process;
      worker.status = 'ready';
    });
    return { worker_id: id, status: 'starting' };
  }

  #state(): object {
    const allocated = this.#workers.length * USED;
    const workers = this.#workers.map(({ process, ...fields }) => ({
      ...fields,
      vram_used: USED,
      ...(process && { uri: process.url.replace('127.0.0.1', 'localhost') }),
    }));
    return {
      pool_id: 'pool-1',
      gpus: [
        SMALL,
        {
          id: GPU,
          total_vram: TOTAL,
          allocated_vram: allocated,
          available_vram: TOTAL - allocated,
          workers: workers.map(({ id }) => id),
        },
      ],
      workers,
    };
  }
}

test('[ORCH-1110] a pool manager built to the sample of the specification joins, and its workers serve', async (t) => {
  const ends = endsOf(t);
  const manager = await new PlainManager(t).listen();
  manager.start('demo:alpha', GPU);
  const { url } = await serve(ends, {
    data: join(testFolder(ends), 'brain'),
    config: QUICK,
    env: { ORCHD_ORCHESTRATOR_POOL_MANAGERS: manager.url },
  });
  const client = new Client(url);
  for (const model of ['alpha', 'beta'])
    await client.register(model, { vram_bytes: USED, size_bytes: USED, context_length: 4096 });

  await client.worker('demo:alpha', 'ready', 'pool-1');
  const first = await client.run({ model: 'alpha', prompt: 'hello', priority: 'interactive' });
  assert.equal((await first.end()).event, 'end');
  assert.equal(first.text, `${ABOUT}hello`);
  assert.deepEqual(manager.orders, [], 'by the worker that was there');

  const second = await client.run({ model: 'beta', prompt: 'hello', priority: 'interactive' });
  assert.equal((await second.end()).event, 'end');
  assert.equal(second.text, `${ABOUT}hello`);
  assert.deepEqual(manager.orders, ['/v2/workers/stop worker-1', '/v2/workers/start demo:beta']);
  const workers = await client.workers('pool-1');
  assert.deepEqual(
    workers.map(({ model_ref, gpu, vram_used }) => [model_ref, gpu, vram_used]),
    [['demo:beta', GPU, USED]],
    'the ordered worker and the one that was started are one',
  );
});
