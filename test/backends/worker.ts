/**
 * A real worker in a process of its own, reached over HTTP, for the conformance suite. Harnesses share the process
 * until one of them kills it, since starting one takes longer than most promises take to be shown.
 */
import { type ChildProcess, fork } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {
  BackendHarness,
  Harnesses,
  HarnessSource,
  SteeredExecution,
} from '../../src/backends/conformance/harness.ts';
import { ExecutorBackend } from '../../src/backends/executor/executor-backend.ts';
import { WORKER_PROTOCOL } from '../../src/backends/pool/worker-protocol.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { harnessId, within } from '../fakes/steered-work.ts';
import { SLOTS, type WorkerNews, type WorkerOrder } from '../fakes/steered-worker-news.ts';

const MAIN = join(import.meta.dirname, '..', 'fakes', 'steered-worker-main.ts');

const { timers } = realEnv();

class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  readonly #cleared: (() => void)[] = [];
  readonly #begun = new Map<string, { count: number; payload: PromiseWithResolvers<unknown> }>();
  readonly listens: Promise<{ readonly url: string; readonly registry: string }>;

  constructor(ledger: string) {
    this.#child = fork(MAIN, [ledger], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.#gone = new Promise((resolve) => {
      this.#child.on('exit', () => resolve());
    });
    this.listens = new Promise((resolve, reject) => {
      this.#child.on('message', (news: WorkerNews) => {
        if (news.is === 'listens') resolve(news);
        else if (news.is === 'cleared') this.#cleared.shift()?.();
        else this.#noteBegun(news.job, news.payload);
      });
      this.#child.on('exit', () => reject(new Error('the worker has ended')));
    });
    this.listens.catch(() => undefined);
  }

  order(order: WorkerOrder): void {
    this.#child.send(order);
  }

  /** Resolves with the payload when the engine has begun. */
  begun(job: string): Promise<unknown> {
    return this.#entry(job).payload.promise;
  }

  count(job: string): number {
    return this.#entry(job).count;
  }

  /** Nothing runs any more. */
  clear(): Promise<void> {
    return new Promise((resolve) => {
      this.#cleared.push(resolve);
      this.order({ is: 'clear' });
    });
  }

  stop(): void {
    this.#child.kill('SIGTERM');
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#gone;
  }

  #entry(job: string): { count: number; payload: PromiseWithResolvers<unknown> } {
    const known = this.#begun.get(job) ?? { count: 0, payload: Promise.withResolvers<unknown>() };
    this.#begun.set(job, known);
    return known;
  }

  #noteBegun(job: string, payload: unknown): void {
    const entry = this.#entry(job);
    entry.count++;
    entry.payload.resolve(payload);
  }
}

/** The worker that harnesses use, one after another. */
class SharedWorker implements HarnessSource {
  readonly #folder = fs.mkdtempSync(join(tmpdir(), 'orchd-steered-'));
  readonly ledger = join(this.#folder, 'ledger');
  #process: WorkerProcess | undefined;

  get process(): WorkerProcess {
    this.#process ??= new WorkerProcess(this.ledger);
    return this.#process;
  }

  async replace(): Promise<void> {
    await this.#process?.kill();
    this.#process = undefined;
  }

  async stop(): Promise<void> {
    await this.replace();
    fs.rmSync(this.#folder, { recursive: true, force: true });
  }

  async harness(): Promise<BackendHarness> {
    return new SteeredWorker(this, await this.connect());
  }

  async connect(): Promise<ExecutorBackend> {
    const { url, registry } = await within(this.process.listens);
    const info = {
      name: 'pool/steered',
      kind: 'worker',
      slots: SLOTS,
      types: ['inference'],
      models: ['steered'],
      labels: {},
      paid: false,
      keepsResults: true,
      registry,
    };
    const target = new Outbound({ timers }).to(url);
    return new ExecutorBackend({ info, protocol: WORKER_PROTOCOL, target, secret: undefined, timers });
  }
}

class SteeredWorker implements BackendHarness {
  readonly id = harnessId();
  readonly workType = 'inference';
  /** The first is found by the brain's side, the second by the worker. */
  readonly unrunnable = ['[]', '{"messages": []}'].map((payloadText) => ({ type: 'inference', payloadText }));
  readonly within = within;
  readonly #shared: SharedWorker;
  readonly #others: ExecutorBackend[] = [];
  #backend: ExecutorBackend;
  #isStopped = false;

  constructor(shared: SharedWorker, backend: ExecutorBackend) {
    this.#shared = shared;
    this.#backend = backend;
  }

  get backend(): ExecutorBackend {
    return this.#backend;
  }

  now(): number {
    return Date.now();
  }

  execution(token: string): SteeredExecution {
    const job = jobOfToken(token);
    const { process } = this.#shared;
    return {
      begun: process.begun(job),
      say: async (text) => process.order({ is: 'say', job, text }),
      succeed: async () => process.order({ is: 'succeed', job }),
      fail: async (retriable) => process.order({ is: 'fail', job, retriable }),
    };
  }

  /** By the worker's ledger, which goes on over restarts, or by its engine, whichever has more. */
  begun(token: string): number {
    const { ledger, process } = this.#shared;
    const lines = fs.existsSync(ledger) ? fs.readFileSync(ledger, 'utf8').split('\n') : [];
    const noted = lines.filter((line) => line.startsWith(`${token} `)).length;
    return Math.max(noted, process.count(jobOfToken(token)));
  }

  async connectOther(): Promise<ExecutorBackend> {
    const other = await this.#shared.connect();
    this.#others.push(other);
    return other;
  }

  async restartBrain(): Promise<void> {
    await this.#backend.stop();
    this.#backend = await this.#shared.connect();
  }

  async stopExecutor(): Promise<void> {
    this.#isStopped = true;
    this.#shared.process.stop();
  }

  async loseMemory(): Promise<void> {
    await this.#shared.replace();
    await this.restartBrain();
  }

  async remove(): Promise<void> {
    await within(this.#isStopped ? this.#shared.replace() : this.#shared.process.clear());
    for (const backend of [this.#backend, ...this.#others]) await backend.stop();
  }
}

export const harnesses: Harnesses = { ExecutorBackend: new SharedWorker() };
