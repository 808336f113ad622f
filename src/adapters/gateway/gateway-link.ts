/**
 * One gateway as the brain sees it: each of its seats becomes a backend. A seat that was busy and can be tried again is
 * reported as free, so that a waiting job need not wait for its next look. A seat that the gateway no longer has is
 * withdrawn once nothing of anybody runs there any more. Other seats may be wanted while it runs.
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
  /** The seats that the gateway is told to have; undefined: those that it has. */
  #wanted: readonly SeatFacts[] | undefined;
  #order: (() => object) | undefined;
  /** The gateway is not configured any more: its seats take nothing new. */
  #isFormer: boolean;
  /** Settles when the gateway lists all seats of the last `update`, or is known to be away. */
  #updated: PromiseWithResolvers<void> | undefined;
  #listener: BackendListener | undefined;
  #starting: Promise<void> | undefined;
  /** The last write of the state. */
  #kept: Promise<void> = Promise.resolve();
  #state: GatewayState | undefined;
  /** Why the gateway cannot be used now. */
  #problem: string | undefined = NOT_ANSWERED;

  constructor(options: GatewayLinkOptions) {
    this.#options = options;
    this.#wanted = options.seats;
    this.#order = options.order;
    this.#isFormer = !options.isNeeded;
    this.#link = new ExecutorLink({
      ...options,
      order: options.order && (() => this.#order?.() ?? {}),
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
    this.#updated?.resolve();
    await this.#starting;
    const left = await this.#link.stop();
    await this.#kept;
    if (left && left.running + left.unacknowledged > 0)
      this.#options.logger.info('requests at the gateway go on; the next start collects their answers', {
        count: left.running + left.unacknowledged,
      });
  }

  /** The connections of a seat are closed: the brain does not call its backend any more. */
  forget(backend: string): void {
    this.#seats.get(backend.slice(this.#options.prefix.length))?.target?.close();
  }

  /** Whether its seats are known: from a report, or from an earlier one on disk. */
  get isKnown(): boolean {
    return this.#state !== undefined;
  }

  /** Names of the backends of all seats. */
  get backends(): readonly string[] {
    return Array.from(this.#seats.keys(), (name) => this.#backend(name));
  }

  /** The gateway is to have other seats. Settles when it has them, or is known to be away. */
  update(seats: readonly SeatFacts[], order: () => object): Promise<void> {
    this.#wanted = seats;
    this.#order = order;
    // At once, so that no job is given to a seat that is about to go.
    for (const seat of this.#seats.values()) if (!this.#isWanted(seat.facts.name)) this.#close(seat);
    this.#updated?.resolve();
    this.#updated = Promise.withResolvers();
    this.#link.reorder();
    return this.#updated.promise;
  }

  /** `true`: its seats take nothing new from now on, and what runs there is collected; `false`: they are used again. */
  setFormer(isFormer: boolean): void {
    this.#isFormer = isFormer;
    for (const seat of this.#seats.values()) {
      if (isFormer) this.#close(seat);
      else {
        seat.facts = { ...seat.facts, isFormer: false };
        this.#present(seat);
      }
    }
  }

  /** Takes all its seats away from the brain; only once no attempt is open on them. */
  withdrawAll(): void {
    for (const name of this.#seats.keys()) this.#withdraw(name);
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
    if ((this.#wanted ?? []).every(({ name }) => listed.has(name))) this.#updated?.resolve();
    if (isNews) this.#kept = this.#kept.then(() => keepLastState(env, folder, state));
  }

  onProblem({ code, message }: LinkProblem): void {
    const { logger } = this.#options;
    if (this.#problem !== message)
      logger.warn('the gateway cannot be used', { error_code: code, reason: message });
    this.#problem = message;
    for (const seat of this.#seats.values()) this.#present(seat);
    this.#firstReport.resolve();
    this.#updated?.resolve();
  }

  /** Nothing runs for a gateway that is not configured any more; jobs that wait for its seats are told so. */
  onGone(): void {
    for (const seat of this.#seats.values()) {
      seat.target = undefined;
      this.#close(seat);
    }
    this.#firstReport.resolve();
  }

  async #start(): Promise<void> {
    const { env, folder } = this.#options;
    const last = await readLastState(env, folder, readState);
    this.#state = last;
    for (const seat of last?.seats ?? []) if (!this.#seats.has(seat.name)) this.#put(this.#factsOf(seat));
    this.#link.start();
  }

  #heard(state: SeatState): void {
    const seat = this.#put(this.#factsOf(state));
    const wasClosed = seat.isClosed;
    seat.isClosed = isClosed(state);
    this.#present(seat);
    if (wasClosed && !seat.isClosed) this.#listener?.free(this.#backend(state.name));
  }

  /** A seat that the gateway does not list. It stays while requests run that may be its own, so that they can be collected. */
  #missing(facts: SeatFacts, isWorking: boolean): void {
    const { name } = facts;
    // One that we have just ordered comes with the next report.
    if (this.#wanted?.some((seat) => seat.name === name)) return this.#present(this.#put(facts));
    if (!isWorking) return this.#withdraw(name);
    this.#close(this.#put(facts));
  }

  #isWanted(seat: string): boolean {
    return !this.#isFormer && (this.#wanted?.some(({ name }) => name === seat) ?? true);
  }

  #factsOf({ name, models, slots, batched = false }: SeatState): SeatFacts {
    return { name, models, slots, isBatched: batched, isFormer: !this.#isWanted(name) };
  }

  #backend(seat: string): string {
    return this.#options.prefix + seat;
  }

  #close(seat: Seat): void {
    seat.facts = { ...seat.facts, isFormer: true };
    this.#present(seat);
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
    if (seat.info) this.#listener?.gone(this.#backend(name));
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
