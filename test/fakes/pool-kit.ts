/** A pool manager in this process or in one of its own, with workers that are told how to misbehave. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { CompleteState } from '../../src/backends/pool/complete-state.ts';
import type { PoolConfig } from '../../src/daemons/pool-manager/config.ts';
import { MARK_VARIABLE } from '../../src/daemons/pool-manager/layout.ts';
import { type PoolOptions, startPool } from '../../src/daemons/pool-manager/pool-manager.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { processesWith } from '../../src/kit/process/identity.ts';
import type { WorkerState } from '../../src/model/pool-wire.ts';

export const WORKER = join(import.meta.dirname, 'pool-worker.ts');

const WORDS =
  '--id {id} --model {file} --model-ref {model_ref} --host {host} --gpu {gpu} --pool-manager {pool_manager}';
export const WORKER_COMMAND = [process.execPath, WORKER, ...WORDS.split(' ')];

export const CONFIG: PoolConfig = {
  port: 0,
  cpu_memory: 1000 * 2 ** 20,
  worker_command: WORKER_COMMAND,
  health_interval_ms: 50,
  health_timeout_ms: 200,
  // On a busy machine a healthy worker is late again and again: tests of its health set this themselves.
  health_misses: 1000,
  stop_grace_ms: 200,
};

export interface Answered {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
  readonly body: any;
}

/** Talks to a pool manager as the brain does. */
export class PoolCaller {
  readonly url: string;
  readonly #token: string | undefined;
  epoch = 1;

  constructor(url: string, token?: string) {
    this.url = url;
    this.#token = token;
  }

  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answered> {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        'x-orchd-owner': 'brain',
        'x-orchd-epoch': String(this.epoch),
        ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  }

  start(id: string | undefined, model: string, more: object = {}): Promise<Answered> {
    const worker = id === undefined ? {} : { worker_id: id };
    const order = { ...worker, model_ref: model, gpu_id: 0, vram_bytes: 10 * 2 ** 20, ...more };
    return this.ask('POST', '/v2/workers/start', order);
  }

  stop = (id: string): Promise<Answered> => this.ask('POST', '/v2/workers/stop', { worker_id: id });
  drain = (id: string, body: object = {}): Promise<Answered> =>
    this.ask('POST', `/v2/workers/${id}/drain`, body);

  async state(query = ''): Promise<CompleteState> {
    const { status, body } = await this.ask('GET', `/v2/state${query}`);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  }

  async worker(id: string): Promise<WorkerState | undefined> {
    return (await this.state()).workers.find((worker) => worker.id === id);
  }

  /** By the long poll that the brain uses. */
  async until<T>(look: (state: CompleteState) => T | undefined | false): Promise<T> {
    const deadline = performance.now() + 10_000;
    let state = await this.state();
    for (;;) {
      const found = look(state);
      if (found !== undefined && found !== false) return found;
      if (performance.now() > deadline) assert.fail(`it did not come about: ${JSON.stringify(state)}`);
      state = await this.state(`?after=${state.version}&wait_ms=500`);
    }
  }

  becomes(id: string, status: WorkerState['status']): Promise<WorkerState> {
    return this.until(({ workers }) =>
      workers.find((worker) => worker.id === id && worker.status === status),
    );
  }

  goes(id: string): Promise<true> {
    return this.until(({ workers }) => !workers.some((worker) => worker.id === id));
  }
}

const endings = new WeakMap<TestContext, (() => unknown)[]>();

/** Runs clean-ups in reverse order: a folder is removed after everything that works in it has ended. */
export function atEnd(t: TestContext, run: () => unknown): void {
  const known = endings.get(t);
  if (known) {
    known.push(run);
    return;
  }
  const all = [run];
  endings.set(t, all);
  t.after(async () => {
    for (const each of all.reverse()) await each();
  });
}

export function poolFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-pool-'));
  atEnd(t, () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

export const livingOf = (state: CompleteState, id: string): number[] =>
  processesWith(MARK_VARIABLE, `${state.registry}/${id}`);

/** Starts a pool manager in this process; its workers end with the test. */
export async function pool(
  t: TestContext,
  data: string,
  config: PoolConfig = {},
  options: Partial<PoolOptions> = {},
): Promise<PoolCaller> {
  const manager = await startPool({
    config: { ...CONFIG, data, ...config },
    logger: createLogger({ write: () => undefined, now: () => Date.now() }),
    endWorkers: true,
    ...options,
  });
  atEnd(t, () => manager.stop());
  return new PoolCaller(manager.url, manager.token);
}
