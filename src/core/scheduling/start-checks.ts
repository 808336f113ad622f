/** Checks whether a job may start on a backend: the limits of its pool, and what its budgets can hold. */
import { type ErrorInfo, errorInfo } from '../../model/errors.ts';
import type { Gate } from '../limits/gate.ts';
import type { GatedAsk } from '../limits/gates.ts';
import { maySee, writtenScope } from '../limits/limit.ts';
import type { EstimatedAsk } from '../money/bound.ts';
import type { PricesView } from '../money/prices.ts';
import type { BackendEntry } from '../queue/fleet.ts';
import type { WaitsFor } from '../queue/gate-lists.ts';
import type { EngineView } from '../turn.ts';
import { poolsOf, runningIn } from './pool-limits.ts';
import { type Quote, quote } from './quote.ts';

export interface StartView extends EngineView {
  readonly settings: PricesView['settings'];
}

/** Why a job cannot start on a backend: a gate that may let it through later, or for good. */
export type Obstacle = { readonly gate: Gate; readonly why: WaitsFor } | { readonly never: ErrorInfo };

export type StartedAsk = GatedAsk & EstimatedAsk;

export class StartChecks {
  readonly #view: StartView;
  readonly #ask: StartedAsk;
  readonly #model: string | undefined;
  readonly #now: number;
  /** The last quote: the backend that is asked last is mostly the one that is chosen. */
  #quoted: { readonly backend: BackendEntry; readonly quote: Quote } | undefined;
  /** The gates of pools that are full; undefined for those with room. Many backends are in the same pool. */
  readonly #fullPools = new Map<string, Gate | undefined>();
  /** The gates of the job, the narrowest first; without those of seats and pools. */
  readonly gates: readonly Gate[];

  constructor(
    view: StartView,
    ask: StartedAsk,
    model: string | undefined,
    now: number,
    gates: readonly Gate[] = view.queue.gates.of(ask, model, now),
  ) {
    this.#view = view;
    this.#ask = ask;
    this.#model = model;
    this.#now = now;
    this.gates = gates;
  }

  quote(backend: BackendEntry): Quote {
    if (this.#quoted?.backend === backend) return this.#quoted.quote;
    const found = this.#newQuote(backend);
    this.#quoted = { backend, quote: found };
    return found;
  }

  #newQuote(backend: BackendEntry): Quote {
    const isHard = this.gates.some((gate) => gate.isHard) || this.#seat(backend)?.isHard === true;
    return quote(this.#view, backend, this.#ask, this.#model, isHard, this.#now);
  }

  /** `isBehind`: whether other jobs wait for the budget of a gate that go before this one. */
  obstacle(backend: BackendEntry, isBehind: (gate: Gate) => boolean): Obstacle | undefined {
    const pool = this.#fullPool(backend);
    if (pool) return { gate: pool, why: 'running' };
    const offer = this.quote(backend);
    if (offer.is === 'free') return undefined;
    if (offer.is !== 'priced') return { never: unknownCost(offer.is, backend) };
    const { reserved } = offer.bill;
    const seat = this.#seat(backend);
    for (const gate of seat ? [...this.gates, seat] : this.gates) {
      if (!gate.isHard) continue;
      if (!gate.couldFit(reserved)) return { never: tooDear(gate, reserved, this.#ask.tenant) };
      if (isBehind(gate)) return { gate, why: 'behind' };
      if (!gate.fits(reserved)) return { gate, why: 'budget' };
    }
    return undefined;
  }

  /** Whether a hard budget speaks against a start on the backend now. */
  isOverBudget(backend: BackendEntry): boolean {
    const obstacle = this.obstacle(backend, () => false);
    return obstacle !== undefined && ('never' in obstacle || obstacle.gate.isHard);
  }

  #seat(backend: BackendEntry): Gate | undefined {
    return this.#view.queue.gates.seat(backend.info.name, this.#now);
  }

  /** The gate of a pool of the backend in which as many jobs run as may. */
  #fullPool({ info }: BackendEntry): Gate | undefined {
    if (!this.#view.queue.gates.limitsPools) return undefined;
    for (const pool of poolsOf(this.#view.state, info)) {
      const full = this.#fullPools.has(pool) ? this.#fullPools.get(pool) : this.#gateIfFull(pool);
      this.#fullPools.set(pool, full);
      if (full) return full;
    }
    return undefined;
  }

  #gateIfFull(pool: string): Gate | undefined {
    const gate = this.#view.queue.gates.pool(pool, this.#now);
    if (gate?.limit.running === undefined) return undefined;
    return runningIn(this.#view, pool) >= gate.limit.running ? gate : undefined;
  }
}

function unknownCost(is: 'unpriced' | 'unbounded', { info }: BackendEntry): ErrorInfo {
  if (is === 'unpriced') {
    const message = `a hard budget applies, and the model has no price on "${info.name}"`;
    return errorInfo('ADMISSION_REJECT', message, 'no_price');
  }
  const message = `a hard budget applies, and nothing bounds the cost on "${info.name}": give max_tokens`;
  return errorInfo('ADMISSION_REJECT', message, 'unbounded_cost');
}

function tooDear({ name, limit, settled }: Gate, cost: number, tenant: string): ErrorInfo {
  const scope = writtenScope(name);
  const budget = maySee(scope, tenant)
    ? `of the budget of "${scope}", ${limit.costBudget}, ${settled} are spent`
    : `the budget of "${scope}" can never hold that`;
  return errorInfo('ADMISSION_REJECT', `it may cost ${cost} millionths; ${budget}`, 'cost_budget');
}
