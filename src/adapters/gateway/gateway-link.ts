/**
 * One gateway as the brain sees it: each of its seats becomes a backend. A seat that was busy and can be tried again is
 * reported as free, so that a waiting job need not wait for its next look. A seat that the gateway no longer has is
 * withdrawn once nothing of anybody runs there any more.
 */
import { ExecutorBackend } from '../../backends/executor/executor-backend.ts';
import { seatProtocol } from '../../backends/gateway/seat-protocol.ts';
import type { BackendInfo, BackendListener } from '../../core/ports/backend.ts';
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { GatewayState, type SeatState } from '../../model/gateway-wire.ts';
import type { Target } from '../../wire/outbound.ts';
import { isChanged } from '../executors/declaration.ts';
import type { ExecutorHost } from '../executors/executor-host.ts';
import { ExecutorLink, type LinkListener, type LinkProblem } from '../executors/executor-link.ts';
import { keepLastState, readLastState } from '../executors/last-state.ts';
import { type SeatFacts, type SeatHome, seatInfo } from './seat-info.ts';

export interface GatewayLinkOptions extends SeatHome {
  readonly env: Env;
  readonly logger: Logger;
  readonly host: ExecutorHost;
  /** The folder of the gateway, in which its last state is kept. */
  readonly folder: string;
  /** The seats that the gateway is told to have; undefined: those that it has. */
  readonly seats: readonly SeatFacts[] | undefined;
  /** What it is told (SeatsOrder); undefined: nothing. */
  readonly order?: (() => object) | undefined;
  /** Without it, the gateway of an earlier start is followed until nothing runs there. */
  readonly isNeeded: boolean;
  readonly maxStreams: number;
}

interface Seat {
  facts: SeatFacts;
  info: BackendInfo | undefined;
  target: Target | undefined;
  isClosed: boolean;
}

const readState = checker(GatewayState);
const NOT_ANSWERED = 'the gateway has not answered yet';
const NOT_CONFIGURED = 'the seat is not configured any more';

/** Whether an offer is worth a try: a seat may be reserved for ourselves. */
const isClosed = ({ busy }: SeatState): boolean => busy !== undefined && busy !== 'reserved';

export class GatewayLink implements LinkListener<GatewayState> {
  readonly #options: GatewayLinkOptions;
  readonly #link: ExecutorLink<GatewayState>;
  readonly #firstReport = Promise.withResolvers<void>();
  readonly #seats = new Map<string, Seat>();
  #listener: BackendListener | undefined;
  #starting: Promise<void> | undefined;
  /** The last write of the state. */
  #kept: Promise<void> = Promise.resolve();
  #state: GatewayState | undefined;
  /** Why the gateway cannot be used now. */
  #problem: string | undefined = NOT_ANSWERED;

  constructor(options: GatewayLinkOptions) {
    this.#options = options;
    this.#link = new ExecutorLink({
      ...options,
      path: '/seats',
      read: readState,
      // Jobs in the gateway's own queue are the work of other callers.
      hasWork: ({ running, unacknowledged, seats }) =>
        running + unacknowledged > 0 || seats.some(({ queued }) => queued > 0),
      listener: this,
    });
    for (const facts of options.seats ?? []) this.#put(facts);
  }

  /** Settles when the gateway has answered once, or is known to be away. */
  get firstReport(): Promise<void> {
    return this.#firstReport.promise;
  }

  /** Names of the models of all seats, as callers use them. */
  get models(): readonly string[] {
    const offered = [...this.#seats.values()].filter(({ facts }) => !facts.isFormer);
    return [...new Set(offered.flatMap(({ facts }) => facts.models))];
  }

  start(listener: BackendListener): void {
    this.#listener = listener;
    this.#starting = this.#start();
  }

  /** A gateway with work goes on, and is found by the next brain. One of ours without work ends. */
  async stop(): Promise<void> {
    this.#firstReport.resolve();
    await this.#starting;
    const left = await this.#link.stop();
    await this.#kept;
    if (left && left.running + left.unacknowledged > 0)
      this.#options.logger.info('requests at the gateway go on; the next start collects their answers', {
        count: left.running + left.unacknowledged,
      });
  }

  /** The connections of a seat are closed: the brain does not call it any more. */
  forget(seat: string): void {
    this.#seats.get(seat)?.target?.close();
  }

  onOpen(): void {
    for (const seat of this.#seats.values()) {
      seat.target?.retire();
      seat.target = undefined;
    }
  }

  onReport(state: GatewayState): void {
    const { env, folder, logger } = this.#options;
    const isNews = factsText(state) !== (this.#state && factsText(this.#state));
    const wasAway = this.#problem !== undefined;
    this.#state = state;
    this.#problem = undefined;
    const listed = new Set(state.seats.map(({ name }) => name));
    for (const seat of state.seats) this.#heard(seat);
    for (const [name, { facts }] of this.#seats)
      if (!listed.has(name)) this.#missing(facts, state.running + state.unacknowledged > 0);
    if (wasAway) logger.info('a gateway is used', { count: state.seats.length });
    this.#firstReport.resolve();
    if (isNews) this.#kept = this.#kept.then(() => keepLastState(env, folder, state));
  }

  onProblem({ code, message }: LinkProblem): void {
    const { logger } = this.#options;
    if (this.#problem !== message)
      logger.warn('the gateway cannot be used', { error_code: code, reason: message });
    this.#problem = message;
    for (const seat of this.#seats.values()) this.#present(seat);
    this.#firstReport.resolve();
  }

  /** Nothing runs for a gateway that is not configured any more; jobs that wait for its seats are told so. */
  onGone(): void {
    for (const seat of this.#seats.values()) {
      seat.target = undefined;
      seat.facts = { ...seat.facts, isFormer: true };
      this.#present(seat);
    }
    this.#firstReport.resolve();
  }

  async #start(): Promise<void> {
    const { env, folder, seats, isNeeded } = this.#options;
    const last = await readLastState(env, folder, readState);
    this.#state = last;
    for (const seat of last?.seats ?? [])
      if (!this.#seats.has(seat.name)) this.#put(this.#factsOf(seat, !isNeeded || seats !== undefined));
    this.#link.start();
  }

  #heard(state: SeatState): void {
    const { seats, isNeeded } = this.#options;
    const isFormer =
      !isNeeded ||
      (seats !== undefined && !seats.some(({ name, isFormer }) => name === state.name && !isFormer));
    const seat = this.#put(this.#factsOf(state, isFormer));
    const wasClosed = seat.isClosed;
    seat.isClosed = isClosed(state);
    this.#present(seat);
    if (wasClosed && !seat.isClosed) this.#listener?.free(state.name);
  }

  /** A seat that the gateway does not list. It stays while requests run that may be its own, so that they can be collected. */
  #missing(facts: SeatFacts, isWorking: boolean): void {
    const { name } = facts;
    // One that we have just ordered comes with the next report.
    if (this.#options.seats?.some((seat) => seat.name === name)) return this.#present(this.#put(facts));
    if (!isWorking) return this.#withdraw(name);
    this.#present(this.#put({ ...facts, isFormer: true }));
  }

  #factsOf({ name, models, slots, batched = false }: SeatState, isFormer: boolean): SeatFacts {
    return { name, models, slots, isBatched: batched, isFormer };
  }

  #put(facts: SeatFacts): Seat {
    const known = this.#seats.get(facts.name);
    if (known) {
      known.facts = facts;
      return known;
    }
    const seat: Seat = { facts, info: undefined, target: undefined, isClosed: false };
    this.#seats.set(facts.name, seat);
    return seat;
  }

  #withdraw(name: string): void {
    const seat = this.#seats.get(name);
    if (!seat) return;
    if (seat.info) this.#listener?.gone(name);
    seat.target?.close();
    this.#seats.delete(name);
  }

  #present(seat: Seat): void {
    const { env, timeoutMs } = this.#options;
    const { facts } = seat;
    const outage = facts.isFormer ? NOT_CONFIGURED : this.#problem;
    const info = seatInfo(this.#options, facts, this.#state?.registry ?? '', outage);
    const isConnected = seat.target !== undefined || this.#link.executor === undefined;
    if (seat.info && isConnected && !isChanged(seat.info, info)) return;
    seat.info = info;
    if (this.#link.executor) seat.target ??= this.#link.target();
    this.#listener?.present(
      new ExecutorBackend({
        info,
        protocol: seatProtocol({ seat: facts.name, timeoutMs }),
        target: seat.target ?? this.#link.target(),
        secret: this.#link.executor?.secret,
        timers: env.timers,
      }),
    );
  }
}

/** What is worth keeping of a state: not its counts, which change with every request. */
const factsText = ({ registry, seats }: GatewayState): string =>
  JSON.stringify([registry, seats.map(({ name, models, slots, batched }) => [name, models, slots, batched])]);
