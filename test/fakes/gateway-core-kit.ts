/** The core of a gateway on a disk in memory, with a clock that the test moves. */
import { GatewayCore } from '../../src/daemons/gateway/core.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { QueueJob, SeatOrder, SubmitImmediate } from '../../src/model/gateway-wire.ts';
import { FakeProvider, seatOrder } from './fake-driver.ts';
import { FaultyDisk } from './faulty-disk.ts';
import type { MemoryDisk } from './memory-disk.ts';

interface Waiting {
  readonly at: number;
  readonly run: () => void;
}

export async function turns(): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise(setImmediate);
}

export const RESERVATION_MS = 2000;
export const TIMEOUT_MS = 60_000;

export class GatewayCoreKit {
  readonly provider: FakeProvider;
  readonly faulty: FaultyDisk;
  now = 1_000_000;
  readonly #waiting = new Set<Waiting>();
  #core: GatewayCore | undefined;

  constructor(provider = new FakeProvider(), memory?: MemoryDisk) {
    this.provider = provider;
    this.faulty = new FaultyDisk(memory);
  }

  get core(): GatewayCore {
    return this.#core as GatewayCore;
  }

  get env(): Env {
    return {
      ...realEnv(),
      disk: this.faulty.disk,
      clock: { now: () => this.now, monotonic: () => this.now, isMadeUp: true },
      timers: {
        soon: (run) => void setImmediate(run),
        after: (ms, run) => {
          const waiting = { at: this.now + ms, run };
          this.#waiting.add(waiting);
          return () => void this.#waiting.delete(waiting);
        },
      },
    };
  }

  async open(seats: readonly SeatOrder[] | undefined = [seatOrder('s')], queue = {}): Promise<this> {
    const logger = createLogger({ write: () => undefined, now: () => 0 });
    const { env, provider } = this;
    this.#core = await GatewayCore.open({
      env,
      logger,
      folder: '/gateway',
      drivers: provider.driverOf,
      queue,
    });
    if (seats.length > 0) this.follow(seats);
    return this;
  }

  follow(seats: readonly SeatOrder[]): void {
    this.core.follow({ seats: [...seats], reservation_ms: RESERVATION_MS, timeout_ms: TIMEOUT_MS });
  }

  /** The next process, if this one dies now. Without seats until it is told about them. */
  next(): Promise<GatewayCoreKit> {
    const next = new GatewayCoreKit(this.provider, this.faulty.memory.copy());
    next.now = this.now + 1;
    return next.open([]);
  }

  /** Lets time pass; what was due happens in order. */
  async pass(ms: number): Promise<void> {
    const end = this.now + ms;
    for (;;) {
      const due = [...this.#waiting].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.#waiting.delete(due);
      this.now = Math.max(this.now, due.at);
      due.run();
      await turns();
    }
    this.now = end;
    await turns();
  }

  /** Submits an immediate request; resolves to `begun`, or to the code or the reason of the refusal. */
  async submit(
    owner: string,
    token: string,
    fields: Partial<SubmitImmediate> = {},
  ): Promise<string | undefined> {
    const body = { backend: 's', payload: token, idempotency_token: token, ...fields };
    const headers = { 'x-orchd-owner': owner, 'x-orchd-epoch': '1' };
    try {
      await this.core.requests.submit(body, headers);
      await turns();
      return 'begun';
    } catch (error) {
      const { code, details } = error as { code?: string; details?: { reason?: string } };
      return details?.reason ?? code ?? String(error);
    } finally {
      await turns();
    }
  }

  async enqueue(id: string, fields: object = {}): Promise<QueueJob> {
    const job = await this.core.queue.submit({ backend: 's', payload: id, job_id: id, ...fields });
    await turns();
    return job;
  }

  outcome(owner: string, token: string) {
    return this.core.kept.memory.readable(owner, token)?.outcome;
  }

  jobState(id: string): string {
    return this.core.queue.view(id).state;
  }
}
