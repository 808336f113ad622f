/**
 * A seat of a real gateway in a process of its own, reached over HTTP, for the conformance suite. Harnesses share the
 * process until one of them kills it. The fake gateway is checked too: tests of the brain's side rely on it.
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
import { seatProtocol } from '../../src/backends/gateway/seat-protocol.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { FakeGateway } from '../fakes/gateway.ts';
import { SLOTS } from '../fakes/steered-news.ts';
import { SteeredProcess } from '../fakes/steered-process.ts';
import { harnessId, within } from '../fakes/steered-work.ts';

const { timers } = realEnv();

/** The backend of a seat that has the name `seat`. */
function connectTo(url: string, registry: string): ExecutorBackend {
  return new ExecutorBackend({
    info: {
      name: 'seat',
      kind: 'gateway',
      slots: SLOTS,
      types: ['inference'],
      models: ['steered'],
      labels: {},
      paid: true,
      keepsResults: true,
      registry,
    },
    protocol: seatProtocol({ seat: 'seat', timeoutMs: 600_000 }),
    target: new Outbound({ timers }).to(url),
    secret: undefined,
    timers,
  });
}

/** The gateway that harnesses use, one after another. */
class SharedGateway implements HarnessSource {
  readonly #root = fs.mkdtempSync(join(tmpdir(), 'orchd-steered-'));
  readonly #folder = join(this.#root, 'gateway');
  readonly #ledger = join(this.#root, 'ledger');
  #process: SteeredProcess | undefined;

  get process(): SteeredProcess {
    this.#process ??= new SteeredProcess('steered-gateway-main.ts', [this.#folder, this.#ledger]);
    return this.#process;
  }

  async kill(): Promise<void> {
    await this.#process?.kill();
    this.#process = undefined;
  }

  async loseMemory(): Promise<void> {
    await this.kill();
    fs.rmSync(this.#folder, { recursive: true, force: true });
  }

  async stop(): Promise<void> {
    await this.kill();
    fs.rmSync(this.#root, { recursive: true, force: true });
  }

  /** How often the provider was called for a job, by any process of the gateway. */
  called(job: string): number {
    const lines = fs.existsSync(this.#ledger) ? fs.readFileSync(this.#ledger, 'utf8').split('\n') : [];
    return lines.filter((line) => line === job).length;
  }

  async harness(): Promise<BackendHarness> {
    return new SteeredSeat(this, await this.connect());
  }

  async connect(): Promise<ExecutorBackend> {
    const { url, registry } = await within(this.process.listens);
    return connectTo(url, registry);
  }
}

/** What a seat of the real gateway and one of the fake have in common. */
abstract class SeatHarness implements BackendHarness {
  readonly id = harnessId();
  readonly workType = 'inference';
  /** The first is found by the brain's side, the second by the gateway. */
  readonly unrunnable = ['[]', '{"messages": []}'].map((payloadText) => ({ type: 'inference', payloadText }));
  readonly within = within;
  readonly #others: ExecutorBackend[] = [];
  #backend: ExecutorBackend;

  constructor(backend: ExecutorBackend) {
    this.#backend = backend;
  }

  abstract execution(token: string): SteeredExecution;
  abstract begun(token: string): number;
  abstract loseMemory(): Promise<void>;
  protected abstract connect(): Promise<ExecutorBackend>;

  get backend(): ExecutorBackend {
    return this.#backend;
  }

  now(): number {
    return Date.now();
  }

  async connectOther(): Promise<ExecutorBackend> {
    const other = await this.connect();
    this.#others.push(other);
    return other;
  }

  async restartBrain(): Promise<void> {
    await this.#backend.stop();
    this.#backend = await this.connect();
  }

  async remove(): Promise<void> {
    for (const backend of [this.#backend, ...this.#others]) await backend.stop();
  }
}

class SteeredSeat extends SeatHarness {
  readonly #shared: SharedGateway;
  #isStopped = false;

  constructor(shared: SharedGateway, backend: ExecutorBackend) {
    super(backend);
    this.#shared = shared;
  }

  execution(token: string): SteeredExecution {
    return this.#shared.process.execution(jobOfToken(token));
  }

  begun(token: string): number {
    return this.#shared.called(jobOfToken(token));
  }

  async restartExecutor(): Promise<void> {
    await this.#shared.kill();
    await this.restartBrain();
  }

  async stopExecutor(): Promise<void> {
    this.#isStopped = true;
    this.#shared.process.stop();
  }

  async loseMemory(): Promise<void> {
    await this.#shared.loseMemory();
    await this.restartBrain();
  }

  override async remove(): Promise<void> {
    await within(this.#isStopped ? this.#shared.kill() : this.#shared.process.clear());
    await super.remove();
  }

  protected connect(): Promise<ExecutorBackend> {
    return this.#shared.connect();
  }
}

class FakeSeat extends SeatHarness {
  readonly #gateways: FakeGateway[];

  constructor(gateway: FakeGateway) {
    super(connectTo(gateway.url, gateway.memory.registry));
    this.#gateways = [gateway];
  }

  get #gateway(): FakeGateway {
    return this.#gateways.at(-1) as FakeGateway;
  }

  execution(token: string): SteeredExecution {
    return this.#gateway.works.of(jobOfToken(token));
  }

  begun(token: string): number {
    const job = jobOfToken(token);
    return this.#gateways.reduce((sum, gateway) => sum + gateway.begun(job), 0);
  }

  async loseMemory(): Promise<void> {
    await this.#gateway.close();
    this.#gateways.push(await listeningFake());
    await this.restartBrain();
  }

  override async remove(): Promise<void> {
    await super.remove();
    await this.#gateway.close();
  }

  protected async connect(): Promise<ExecutorBackend> {
    return connectTo(this.#gateway.url, this.#gateway.memory.registry);
  }
}

async function listeningFake(): Promise<FakeGateway> {
  const gateway = new FakeGateway({ seat: { models: ['steered'], slots: SLOTS } });
  await gateway.listen();
  return gateway;
}

export const harnesses: Harnesses = {
  'ExecutorBackend (seat of a gateway)': new SharedGateway(),
  'ExecutorBackend (seat of the fake gateway)': {
    harness: async () => new FakeSeat(await listeningFake()),
  },
};
