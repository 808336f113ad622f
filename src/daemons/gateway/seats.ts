/** All seats of the gateway, their drivers, and the executions that run on each, also on seats that are gone. */
import { isDeepStrictEqual } from 'node:util';
import { OrchdError } from '../../model/errors.ts';
import type { SeatOrder, SeatsOrder } from '../../model/gateway-wire.ts';
import type { Execution } from '../execution/execution.ts';
import type { Driver } from './driver.ts';
import { admit, Seat, type SeatCaller, type Verdict } from './seat.ts';

export type Drivers = (order: SeatOrder) => Driver;

/** A driver with the number of its calls: it is closed when the last of them has ended and no seat has it. */
interface DriverUse {
  readonly driver: Driver;
  calls: number;
  isRetired: boolean;
}

/** A seat's driver during one call. */
export interface BorrowedDriver {
  readonly driver: Driver;
  release(): void;
}

const NO_EXECUTIONS: ReadonlySet<Execution> = new Set();

export class Seats {
  readonly #drivers: Drivers;
  /** Called when a seat begins or ceases to wait for a person. */
  readonly #onHold: () => void;
  readonly #seats = new Map<string, { readonly seat: Seat; use: DriverUse }>();
  /** By the name of the seat. */
  readonly #running = new Map<string, Set<Execution>>();
  #order: SeatsOrder | undefined;

  constructor(drivers: Drivers, onHold: () => void) {
    this.#drivers = drivers;
    this.#onHold = onHold;
  }

  /** What the gateway was told last; undefined until it was told once. */
  get order(): SeatsOrder | undefined {
    return this.#order;
  }

  get all(): readonly Seat[] {
    return [...this.#seats.values()].map(({ seat }) => seat);
  }

  /** Throws CONFIG_INVALID, and changes nothing, where a driver cannot be made. */
  follow(order: SeatsOrder): void {
    const names = new Set(order.seats.map(({ name }) => name));
    if (names.size < order.seats.length)
      throw new OrchdError('INVALID_PARAMS', 'two seats have the same name');
    const made = new Map<string, Driver>();
    try {
      for (const seat of order.seats) if (this.#isNew(seat)) made.set(seat.name, this.#drivers(seat));
    } catch (error) {
      for (const driver of made.values()) driver.close();
      throw error;
    }
    for (const [name, { use }] of this.#seats) {
      if (names.has(name)) continue;
      this.#seats.delete(name);
      retire(use);
    }
    for (const seat of order.seats) this.#put(seat, made.get(seat.name), order.reservation_ms);
    this.#order = order;
  }

  find(name: string): Seat | undefined {
    return this.#seats.get(name)?.seat;
  }

  /** Throws where there is no such seat: as busy, if the gateway was not told about its seats yet. */
  get(name: string): Seat {
    const seat = this.find(name);
    if (seat) return seat;
    if (!this.#order) {
      throw new OrchdError('WORKER_BUSY', 'the gateway was not told about its seats yet', {
        retryAfterMs: 1000,
      });
    }
    throw new OrchdError('NOT_FOUND', 'there is no seat of this name', { field: 'backend' });
  }

  runningOn(name: string): ReadonlySet<Execution> {
    return this.#running.get(name) ?? NO_EXECUTIONS;
  }

  began(execution: Execution): void {
    const name = execution.call?.seat ?? '';
    const running = this.#running.get(name) ?? new Set();
    running.add(execution);
    this.#running.set(name, running);
  }

  ended(execution: Execution): void {
    const name = execution.call?.seat ?? '';
    const running = this.#running.get(name);
    if (running?.delete(execution) && running.size === 0) this.#running.delete(name);
  }

  verdict(seat: Seat, caller: SeatCaller, now: number): Verdict {
    return admit(seat.load(this.runningOn(seat.order.name).size), caller, now);
  }

  abilitiesOf(seat: Seat): Driver['abilities'] {
    return (this.#seats.get(seat.order.name) as { use: DriverUse }).use.driver.abilities;
  }

  /** The driver of a seat for one call; undefined where the seat is gone. */
  borrow(name: string): BorrowedDriver | undefined {
    const use = this.#seats.get(name)?.use;
    if (!use) return undefined;
    use.calls++;
    return {
      driver: use.driver,
      release() {
        use.calls--;
        if (use.isRetired && use.calls === 0) use.driver.close();
      },
    };
  }

  /** When a seat may change next without a call. */
  nextChange(now: number): number | undefined {
    const coming = this.all.flatMap((seat) => seat.nextChange(now) ?? []);
    return coming.length > 0 ? Math.min(...coming) : undefined;
  }

  close(): void {
    for (const { use } of this.#seats.values()) use.driver.close();
  }

  #isNew(order: SeatOrder): boolean {
    const known = this.#seats.get(order.name);
    return !known || !isDeepStrictEqual(known.seat.order, order);
  }

  #put(order: SeatOrder, driver: Driver | undefined, reservationMs: number): void {
    const known = this.#seats.get(order.name);
    if (known) known.seat.reservationMs = reservationMs;
    if (!driver) return;
    const use: DriverUse = { driver, calls: 0, isRetired: false };
    if (!known) {
      const seat = new Seat(order, reservationMs);
      this.#seats.set(order.name, { seat, use });
      this.#watch(seat, use);
      return;
    }
    retire(known.use);
    known.use = use;
    known.seat.changed(order);
    this.#watch(known.seat, use);
  }

  #watch(seat: Seat, use: DriverUse): void {
    use.driver.watchHold?.((reason) => {
      if (use.isRetired) return;
      seat.hold(reason);
      this.#onHold();
    });
  }
}

function retire(use: DriverUse): void {
  use.isRetired = true;
  if (use.calls === 0) use.driver.close();
}
