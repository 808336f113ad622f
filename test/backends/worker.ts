/**
 * A real worker in a process of its own, reached over HTTP, for the conformance suite. Harnesses share the process
 * until one of them kills it, since starting one takes longer than most promises take to be shown.
 */
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
import { SLOTS } from '../fakes/steered-news.ts';
import { SteeredProcess } from '../fakes/steered-process.ts';
import { harnessId, within } from '../fakes/steered-work.ts';

const { timers } = realEnv();

/** The worker that harnesses use, one after another. */
class SharedWorker implements HarnessSource {
  readonly #folder = fs.mkdtempSync(join(tmpdir(), 'orchd-steered-'));
  readonly ledger = join(this.#folder, 'ledger');
  #process: SteeredProcess | undefined;

  get process(): SteeredProcess {
    this.#process ??= new SteeredProcess('steered-worker-main.ts', [this.ledger]);
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
    return this.#shared.process.execution(jobOfToken(token));
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
