/**
 * What the gateway decides and remembers, without its HTTP server. It admits immediate requests, runs the
 * gateway's own queue, and goes on with what an earlier process has begun.
 */
import type { Cancel, Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { OrchdError } from '../../model/errors.ts';
import {
  BATCH_DRIVERS,
  type GatewayState,
  QUEUE_OWNER,
  type SeatState,
  type SeatsOrder,
} from '../../model/gateway-wire.ts';
import type { Execution } from '../execution/execution.ts';
import { type Admission, type ExecutionOffer, Executions } from '../execution/executions.ts';
import { KeptEpochs } from '../execution/kept-epochs.ts';
import { KeptMemory } from '../execution/kept-memory.ts';
import type { Ledger } from '../execution/ledger.ts';
import { StateFeed } from '../execution/state-feed.ts';
import { BackgroundQueue, type QueueLimits } from './background-queue.ts';
import { SeatCalls } from './calls.ts';
import { Requests } from './requests.ts';
import type { Seat } from './seat.ts';
import { type Drivers, Seats } from './seats.ts';

export interface GatewayCoreOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly folder: string;
  readonly drivers: Drivers;
  readonly ledger?: Ledger | undefined;
  readonly queue?: Partial<QueueLimits> | undefined;
}

const MAX_LOG_BYTES = 4 * 2 ** 20;
/** The versions of a process begin above all that an earlier one can have used. */
const VERSIONS_OF_A_LIFE = 1_000_000;

export class GatewayCore implements Admission {
  readonly kept: KeptMemory;
  readonly seats: Seats;
  readonly executions: Executions;
  readonly queue: BackgroundQueue;
  readonly requests: Requests;
  readonly feed: StateFeed;
  readonly #env: Env;
  readonly #calls: SeatCalls;
  /** Executions of an earlier process that wait for their seat. */
  #unresumed: Execution[];
  #cancelTick: Cancel | undefined;
  /** The seats that were free for everybody at the last version. */
  readonly #free = new Set<string>();

  private constructor({ env, logger, drivers, ledger, queue }: GatewayCoreOptions, kept: KeptMemory) {
    const { memory } = kept;
    this.#env = env;
    this.kept = kept;
    this.seats = new Seats(drivers, () => this.#changed());
    this.feed = new StateFeed(env.timers, () => undefined);
    this.feed.startAt(kept.state.life * VERSIONS_OF_A_LIFE);
    this.#calls = new SeatCalls({ env, seats: this.seats, kept });
    this.executions = new Executions({
      env,
      logger,
      engine: this.#calls,
      memory,
      modelRef: ({ body }) => body.model ?? '',
      maxLogBytes: MAX_LOG_BYTES,
      ledger: ledger ?? (() => undefined),
      admission: this,
    });
    this.queue = new BackgroundQueue({
      env,
      kept,
      seats: this.seats,
      executions: () => this.executions,
      onChange: () => this.#tellAll(),
      limits: queue,
    });
    this.requests = new Requests({
      clock: env.clock,
      memory,
      epochs: new KeptEpochs(kept),
      executions: this.executions,
      seats: this.seats,
      queue: this.queue,
    });
    this.#unresumed = memory.allRunning();
    for (const execution of this.#unresumed) this.seats.began(execution);
  }

  static async open(options: GatewayCoreOptions): Promise<GatewayCore> {
    const { env, logger, folder } = options;
    const kept = await KeptMemory.open({
      env,
      logger,
      folder,
      queueOwner: QUEUE_OWNER,
      maxLogBytes: MAX_LOG_BYTES,
    });
    return new GatewayCore(options, kept);
  }

  /** Uses these seats from now on, and goes on with what an earlier process has begun on them. */
  follow(order: SeatsOrder): void {
    this.seats.follow(order);
    const resumed = this.#unresumed;
    this.#unresumed = [];
    for (const execution of resumed) {
      this.executions.resume(execution, (context) => this.#calls.resume(execution, context));
    }
    this.#changed();
  }

  admit({ who, call }: ExecutionOffer): void {
    if (!call) throw new OrchdError('INTERNAL', 'the offer names no seat');
    const now = this.#env.clock.monotonic();
    const seat = this.seats.get(call.seat);
    const { owner } = who;
    const isQueue = owner === QUEUE_OWNER;
    const verdict = this.seats.verdict(seat, isQueue ? 'queue' : { owner }, now);
    if (verdict.is === 'free') {
      if (!isQueue) seat.admitted(owner);
      return;
    }
    const { reason, retryAfterMs } = verdict;
    if (!isQueue && (reason === 'occupied' || reason === 'reserved')) {
      // A renewal is no change: callers that are woken by one would wake each other without end.
      if (seat.reserve(owner, now)) this.#tell(seat.order.name);
      this.#schedule();
    }
    throw new OrchdError('WORKER_BUSY', 'the seat takes no request now', { reason, retryAfterMs });
  }

  began(execution: Execution): void {
    this.seats.began(execution);
    this.#tell(execution.call?.seat);
  }

  ended(execution: Execution): void {
    this.seats.ended(execution);
    if (execution.owner === QUEUE_OWNER) this.queue.ended(execution);
    this.queue.pump();
    this.#schedule();
    this.#tell(execution.call?.seat);
  }

  state(): GatewayState {
    const { registry, running, unacknowledged } = this.kept.memory;
    const { queued } = this.queue;
    return {
      version: this.feed.version,
      registry,
      seats: this.seats.all.map((seat) => this.#stateOf(seat, queued.get(seat.order.name) ?? 0)),
      running,
      unacknowledged,
    };
  }

  /** Drops what exceeds a limit. */
  sweep(): void {
    this.kept.memory.makeRoom();
    this.queue.sweep();
  }

  async close(): Promise<void> {
    this.#cancelTick?.();
    this.queue.stop();
    this.feed.close();
    this.seats.close();
    await this.kept.close();
  }

  #stateOf(seat: Seat, queued: number): SeatState {
    const { clock } = this.#env;
    const { name, driver, models, slots } = seat.order;
    const now = clock.monotonic();
    const verdict = this.seats.verdict(seat, 'anybody', now);
    const until = seat.restsUntil(now);
    return {
      name,
      driver,
      models: Object.keys(models),
      slots,
      running: this.seats.runningOn(name).size,
      ...(verdict.is === 'busy' && { busy: verdict.reason }),
      ...(until !== undefined && { busy_until: Math.ceil(clock.now() + until - now) }),
      high_priority_pending: seat.hasReservation(now),
      queued,
      finds: this.seats.abilitiesOf(seat).finds,
      batched: BATCH_DRIVERS.has(driver),
    };
  }

  #changed(): void {
    this.queue.pump();
    this.#schedule();
    this.#tellAll();
  }

  /**
   * Changes the version after something has happened on one seat, unless the seat was free at the last version and is
   * still: then only its number of requests has changed, and every request of a seat with many slots would wake all who wait.
   */
  #tell(name = ''): void {
    const isFree = this.#isFree(name);
    if (isFree && this.#free.has(name)) return;
    if (isFree) this.#free.add(name);
    else this.#free.delete(name);
    this.feed.changed();
  }

  #tellAll(): void {
    this.#free.clear();
    for (const { order } of this.seats.all) if (this.#isFree(order.name)) this.#free.add(order.name);
    this.feed.changed();
  }

  #isFree(name: string): boolean {
    const now = this.#env.clock.monotonic();
    const seat = this.seats.find(name);
    return (
      seat !== undefined &&
      !seat.hasReservation(now) &&
      this.seats.verdict(seat, 'anybody', now).is === 'free'
    );
  }

  /** Looks again when a reservation or a rest has ended. */
  #schedule(): void {
    const { clock, timers } = this.#env;
    this.#cancelTick?.();
    const now = clock.monotonic();
    const next = this.seats.nextChange(now);
    this.#cancelTick =
      next === undefined ? undefined : timers.after(Math.ceil(next - now), () => this.#changed());
  }
}
