/**
 * Who may use a seat now. Everything here is synchronous and takes the time as an argument (monotonic milliseconds).
 *
 * A caller that is refused because the seat is occupied, or kept for somebody else, gets a reservation: while it stands,
 * callers that came later are refused, and the gateway's own queue takes nothing. Each try renews it; it ends by itself.
 */
import type { SeatOrder } from '../../model/gateway-wire.ts';
import type { BusyReason, TurnedAwayReason } from '../../model/reasons.ts';

/** Reservations belong to owners; the gateway's own queue has none. */
export type SeatCaller = { readonly owner: string } | 'queue' | 'anybody';

export interface Reservation {
  readonly owner: string;
  readonly until: number;
}

export interface Rest {
  readonly reason: TurnedAwayReason;
  readonly until: number;
}

export interface SeatLoad {
  readonly slots: number;
  readonly running: number;
  /** In the order in which the callers came. */
  readonly reservations: readonly Reservation[];
  readonly rest: Rest | undefined;
  /** The seat takes nothing until a person has acted. */
  readonly hold: TurnedAwayReason | undefined;
  readonly reservationMs: number;
}

export type Verdict =
  | { readonly is: 'free' }
  | { readonly is: 'busy'; readonly reason: BusyReason; readonly retryAfterMs: number };

const FIRST_REST_MS = 1000;
const MAX_GUESSED_REST_MS = 5 * 60_000;
/** A key that was refused is not accepted a second later. */
const AUTH_REST_MS = 60_000;
const MAX_REST_MS = 24 * 3_600_000;
/** What a caller of a held seat is told: nobody knows when the person acts. Callers that follow the seats hear it at once. */
const HOLD_RETRY_MS = 60_000;

/** Whether a caller's request could begin now. */
export function admit(load: SeatLoad, caller: SeatCaller, now: number): Verdict {
  const { rest, hold, slots, running, reservationMs } = load;
  if (hold) return { is: 'busy', reason: hold, retryAfterMs: HOLD_RETRY_MS };
  if (rest && rest.until > now) {
    return { is: 'busy', reason: rest.reason, retryAfterMs: Math.ceil(rest.until - now) };
  }
  const retryAfterMs = Math.max(1, Math.floor(reservationMs / 2));
  const free = slots - running;
  if (free <= 0) return { is: 'busy', reason: 'occupied', retryAfterMs };
  const standing = load.reservations.filter(({ until }) => until > now);
  if (caller === 'queue') {
    return standing.length > 0 ? { is: 'busy', reason: 'reserved', retryAfterMs } : { is: 'free' };
  }
  const own = caller === 'anybody' ? -1 : standing.findIndex(({ owner }) => owner === caller.owner);
  const ahead = own < 0 ? standing.length : own;
  return ahead >= free ? { is: 'busy', reason: 'reserved', retryAfterMs } : { is: 'free' };
}

/** How long a seat rests after the provider has turned a request away; `failures` in a row, from 1. */
export function restMs(reason: TurnedAwayReason, retryAfterMs: number | undefined, failures: number): number {
  if (retryAfterMs !== undefined) return Math.min(Math.max(0, retryAfterMs), MAX_REST_MS);
  if (reason === 'auth_required') return AUTH_REST_MS;
  return Math.min(FIRST_REST_MS * 2 ** Math.min(failures - 1, 20), MAX_GUESSED_REST_MS);
}

/** One seat: what the gateway was told about it, and its present state. */
export class Seat {
  order: SeatOrder;
  reservationMs: number;
  #reservations: Reservation[] = [];
  #rest: Rest | undefined;
  #hold: TurnedAwayReason | undefined;
  #failures = 0;

  constructor(order: SeatOrder, reservationMs: number) {
    this.order = order;
    this.reservationMs = reservationMs;
  }

  load(running: number): SeatLoad {
    const { slots } = this.order;
    const { reservationMs } = this;
    return {
      slots,
      running,
      reservations: this.#reservations,
      rest: this.#rest,
      hold: this.#hold,
      reservationMs,
    };
  }

  hasReservation(now: number): boolean {
    return this.#reservations.some(({ until }) => until > now);
  }

  /** When the seat may be tried again, while it rests. */
  restsUntil(now: number): number | undefined {
    return this.#rest && this.#rest.until > now ? this.#rest.until : undefined;
  }

  /** A caller was refused: it keeps its place, or gets the last one. Returns whether it is a new one. */
  reserve(owner: string, now: number): boolean {
    const until = now + this.reservationMs;
    const standing = this.#reservations.filter((each) => each.until > now);
    const at = standing.findIndex((each) => each.owner === owner);
    if (at < 0) standing.push({ owner, until });
    else standing[at] = { owner, until };
    this.#reservations = standing;
    return at < 0;
  }

  /** A caller's request has begun. */
  admitted(owner: string): void {
    this.#reservations = this.#reservations.filter((each) => each.owner !== owner);
  }

  /** The provider has turned a request away; returns for how long the seat rests. */
  turnedAway(reason: TurnedAwayReason, retryAfterMs: number | undefined, now: number): number {
    const rests = this.restsUntil(now);
    // Calls that were under way when the seat began to rest say nothing new.
    if (rests === undefined) this.#failures++;
    else if (retryAfterMs === undefined) return Math.ceil(rests - now);
    const ms = restMs(reason, retryAfterMs, this.#failures);
    const until = now + ms;
    // Of several answers the longest wait counts.
    if (!this.#rest || this.#rest.until < until) this.#rest = { reason, until };
    return ms;
  }

  /** The driver waits for a person; undefined: the person has acted, and what the provider said before no longer counts. */
  hold(reason: TurnedAwayReason | undefined): void {
    this.#hold = reason;
    if (reason === undefined) this.#rest = undefined;
  }

  /** The provider has taken a request. */
  taken(): void {
    this.#failures = 0;
  }

  /** The seat was changed, perhaps its key: what the provider said before no longer counts. */
  changed(order: SeatOrder): void {
    this.order = order;
    this.#rest = undefined;
    this.#hold = undefined;
    this.#failures = 0;
  }

  /** When a reservation or the rest ends next. */
  nextChange(now: number): number | undefined {
    const ends = [...this.#reservations.map(({ until }) => until), this.#rest?.until ?? 0];
    const coming = ends.filter((until) => until > now);
    return coming.length > 0 ? Math.min(...coming) : undefined;
  }
}
