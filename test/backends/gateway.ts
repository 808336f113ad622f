/** A seat of the fake gateway, reached over HTTP, for the conformance suite. */
import type { BackendHarness, Harnesses, SteeredExecution } from '../../src/backends/conformance/harness.ts';
import { ExecutorBackend } from '../../src/backends/executor/executor-backend.ts';
import { seatProtocol } from '../../src/backends/gateway/seat-protocol.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { FakeGateway } from '../fakes/gateway.ts';
import { harnessId, within } from '../fakes/steered-work.ts';
import { SLOTS } from '../fakes/steered-worker-news.ts';

const { timers } = realEnv();
const SEATS = { seat: { models: ['steered'], slots: SLOTS } };

class SteeredSeat implements BackendHarness {
  readonly id = harnessId();
  readonly workType = 'inference';
  /** The first is found by the brain's side, the second by the gateway. */
  readonly unrunnable = ['[]', '{"messages": []}'].map((payloadText) => ({ type: 'inference', payloadText }));
  readonly within = within;
  readonly #others: ExecutorBackend[] = [];
  readonly #began: FakeGateway[] = [];
  #gateway = new FakeGateway();
  #backend: ExecutorBackend | undefined;

  get backend(): ExecutorBackend {
    return this.#backend as ExecutorBackend;
  }

  now(): number {
    return Date.now();
  }

  execution(token: string): SteeredExecution {
    return this.#gateway.works.of(jobOfToken(token));
  }

  begun(token: string): number {
    const job = jobOfToken(token);
    return this.#began.reduce((sum, gateway) => sum + gateway.begun(job), 0);
  }

  async connectOther(): Promise<ExecutorBackend> {
    const other = this.#connect();
    this.#others.push(other);
    return other;
  }

  async restartBrain(): Promise<void> {
    await this.#backend?.stop();
    this.#backend = this.#connect();
  }

  async loseMemory(): Promise<void> {
    await this.#gateway.close();
    await this.begin();
  }

  async begin(): Promise<void> {
    this.#gateway = new FakeGateway(SEATS);
    this.#began.push(this.#gateway);
    await this.#gateway.listen();
    await this.restartBrain();
  }

  async remove(): Promise<void> {
    for (const backend of [this.backend, ...this.#others]) await backend.stop();
    await this.#gateway.close();
  }

  #connect(): ExecutorBackend {
    const { memory, url } = this.#gateway;
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
        registry: memory.registry,
      },
      protocol: seatProtocol({ seat: 'seat', timeoutMs: 60_000 }),
      target: new Outbound({ timers }).to(url),
      secret: undefined,
      timers,
    });
  }
}

export const harnesses: Harnesses = {
  'ExecutorBackend (seat of a gateway)': {
    async harness() {
      const seat = new SteeredSeat();
      await seat.begin();
      return seat;
    },
  },
};
