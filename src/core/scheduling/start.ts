/**
 * Decides whether the next job of a lane may start now, on which backend, and what it holds back of its budgets; if not,
 * where it waits. Nothing is changed here.
 */
import { type ErrorInfo, errorInfo } from '../../model/errors.ts';
import type { Bill } from '../../model/price.ts';
import type { Gate } from '../limits/gate.ts';
import { isBroad } from '../limits/gates.ts';
import { writtenScope } from '../limits/limit.ts';
import type { PricesView } from '../money/prices.ts';
import type { BackendEntry, Lane } from '../queue/fleet.ts';
import { hasLetThrough, isFull, modelOf } from '../queue/queue.ts';
import type { PoolSettings } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineView } from '../turn.ts';
import { place } from './placement/place.ts';
import { type Quote, quote } from './quote.ts';

export type Start =
  | {
      readonly is: 'go';
      readonly backend: BackendEntry;
      readonly reason: string;
      readonly bill: Bill | undefined;
    }
  /** The job waits at a narrow gate; others of its lane may go on. */
  | { readonly is: 'at-gate'; readonly gate: Gate; readonly isByBudget: boolean }
  /** The whole lane waits, until gates let more through. */
  | { readonly is: 'held'; readonly gate: Gate | undefined }
  /** The job cannot ever start. */
  | { readonly is: 'never'; readonly error: ErrorInfo };

export interface StartSettings extends Pick<PricesView['settings'], 'prices'> {
  readonly pools: PoolSettings;
}

const HELD: Start = { is: 'held', gate: undefined };

export function mayStart(
  view: EngineView,
  settings: StartSettings,
  lane: Lane,
  entry: JobEntry,
  now: number,
): Start {
  return new StartDecision(view, settings, lane, entry, now).decide();
}

class StartDecision {
  readonly #view: EngineView;
  readonly #settings: StartSettings;
  readonly #lane: Lane;
  readonly #entry: JobEntry;
  readonly #now: number;
  readonly #gates: readonly Gate[];

  constructor(view: EngineView, settings: StartSettings, lane: Lane, entry: JobEntry, now: number) {
    this.#view = view;
    this.#settings = settings;
    this.#lane = lane;
    this.#entry = entry;
    this.#now = now;
    this.#gates = view.queue.gates.of(entry.ask, modelOf(entry), now);
  }

  decide(): Start {
    const full = this.#gates.find((gate) => gate.limit.running !== undefined && this.#isFull(gate));
    if (full)
      return isBroad(full) ? { is: 'held', gate: full } : { is: 'at-gate', gate: full, isByBudget: false };
    const { state, queue } = this.#view;
    const isLimited = !queue.gates.isEmpty;
    const mayUse = isLimited ? (backend: BackendEntry): boolean => !this.#obstacle(backend) : undefined;
    const placed = place(state, this.#settings.pools, this.#lane, this.#entry, mayUse);
    if (!placed) return isLimited ? this.#whyNot() : HELD;
    const offer = this.#quote(placed.backend);
    return { is: 'go', ...placed, bill: offer.is === 'priced' ? offer.bill : undefined };
  }

  #isFull(gate: Gate): boolean {
    return !hasLetThrough(gate, this.#entry) && isFull(gate);
  }

  #quote(backend: BackendEntry): Quote {
    const { ask } = this.#entry;
    const isHard = this.#gates.some((gate) => gate.isHard) || this.#seat(backend)?.isHard === true;
    const view = { state: this.#view.state, settings: this.#settings };
    return quote(view, backend, ask, modelOf(this.#entry), isHard, this.#now);
  }

  #seat(backend: BackendEntry): Gate | undefined {
    return this.#view.queue.gates.seat(backend.info.name, this.#now);
  }

  /** Why the job cannot start on a backend now: a gate that may let it through later, or for good. */
  #obstacle(backend: BackendEntry): { readonly gate: Gate } | { readonly never: ErrorInfo } | undefined {
    const pool = this.#fullPool(backend);
    if (pool) return { gate: pool };
    const offer = this.#quote(backend);
    if (offer.is === 'free') return undefined;
    if (offer.is !== 'priced') return { never: unknownCost(offer.is, backend) };
    const { reserved } = offer.bill;
    const seat = this.#seat(backend);
    for (const gate of seat ? [...this.#gates, seat] : this.#gates) {
      if (!gate.isHard) continue;
      if (!gate.couldFit(reserved)) return { never: tooDear(gate, reserved) };
      const isBehind = gate.waiting > 0 && !hasLetThrough(gate, this.#entry);
      if (isBehind || !gate.fits(reserved)) return { gate };
    }
    return undefined;
  }

  /** The gate of the backend's pool, if as many jobs run there as may. */
  #fullPool({ info }: BackendEntry): Gate | undefined {
    const pool = info.home?.pool;
    const gate = pool === undefined ? undefined : this.#view.queue.gates.pool(pool, this.#now);
    if (gate?.limit.running === undefined) return undefined;
    let used = 0;
    for (const other of this.#view.queue.fleet.backends.values())
      if (other.info.home?.pool === pool) used += other.used;
    return used >= gate.limit.running ? gate : undefined;
  }

  /** No free backend may be used: where the job waits, or that it never starts. */
  #whyNot(): Start {
    let never: ErrorInfo | undefined;
    let waits: Start | undefined;
    for (const backend of this.#lane.backends) {
      const obstacle = this.#obstacle(backend);
      if (obstacle && 'never' in obstacle) {
        never ??= obstacle.never;
        continue;
      }
      const gate = backend.free ? obstacle?.gate : undefined;
      if (gate && !isBroad(gate)) return { is: 'at-gate', gate, isByBudget: true };
      if (!waits || gate) waits = { is: 'held', gate };
    }
    if (waits) return waits;
    return never ? { is: 'never', error: never } : HELD;
  }
}

function unknownCost(is: 'unpriced' | 'unbounded', { info }: BackendEntry): ErrorInfo {
  const message =
    is === 'unpriced'
      ? `a hard budget applies, and the model has no price on "${info.name}"`
      : `a hard budget applies, and the cost on "${info.name}" has no bound: max_tokens is missing, or something else that costs money is not limited`;
  return errorInfo('ADMISSION_REJECT', message, is === 'unpriced' ? 'no_price' : 'unbounded_cost');
}

const tooDear = ({ name, limit, settled }: Gate, cost: number): ErrorInfo =>
  errorInfo(
    'ADMISSION_REJECT',
    `it may cost ${cost} millionths; of the budget of "${writtenScope(name)}", ${limit.costBudget}, ${settled} are spent`,
    'cost_budget',
  );
