/**
 * The gates of all scopes whose starts are limited: found by the scopes of a job, and counted by its attempts.
 *
 * Broad gates (all jobs, a model) hold up whole lanes; narrow ones (a tenant, an agent, a token, a session, a route, a
 * tree of jobs) hold up the jobs of their scope, which wait at the gate, in order, while others go on. The gate of a seat
 * holds up that backend.
 */
import type { SpentRecord } from '../../model/limit-records.ts';
import { type AskRecord, DEFAULT_TENANT } from '../../model/records.ts';
import { Gate } from './gate.ts';
import { type BudgetUse, budgetUse, type GateUse, nearUses } from './gate-use.ts';
import { isStartLimit, type Limit, LimitTable, ownScope, patternOf, scopes } from './limit.ts';

/** More gates than these share one by the pattern of their limit: stricter than a gate each, never laxer. */
const MAX_GATES = 100_000;
const SWEPT_PER_CALL = 2;
/** Gates that one read looks at. */
const MAX_LOOKED = 10_000;

/** The fields of a job that decide which gates it passes. */
export type GatedAsk = Pick<AskRecord, 'id' | 'tenant' | 'submittedBy' | 'spec' | 'route' | 'ancestors'>;

const BROAD = new Set(['global', 'model', 'pool', 'seat']);

export class Gates {
  /** Raised when a gate may let through more than before: lanes that were held up are looked at again. */
  version = 0;
  /** Gates whose spent record is out of date. */
  readonly dirty = new Set<Gate>();
  /** Gates that held something up: only their windows have to be watched. */
  readonly shut = new Set<Gate>();
  readonly #maxGates: number;
  readonly #gates = new Map<string, Gate>();
  #table = new LimitTable([]);
  /** The kinds of scopes that are limited: the names of others need not be made. */
  #kinds: ReadonlySet<string> = new Set();
  #hasHard = false;
  #spent: (scope: string) => SpentRecord | undefined = () => undefined;
  #sweep: Iterator<Gate> | undefined;

  constructor(maxGates: number = MAX_GATES) {
    this.#maxGates = maxGates;
  }

  get isEmpty(): boolean {
    return this.#kinds.size === 0;
  }

  /** Whether a budget is hard: only then can a job be refused for its cost. */
  get hasHard(): boolean {
    return this.#hasHard;
  }

  /**
   * Replaces all limits, and forgets all gates: the caller counts the open attempts again. `spent` reads what a scope has
   * used so far.
   */
  configure(limits: readonly Limit[], spent: (scope: string) => SpentRecord | undefined): void {
    const ofStarts = limits.filter(isStartLimit);
    this.#table = new LimitTable(ofStarts);
    this.#kinds = new Set(ofStarts.map(({ scope }) => kindOf(scope)));
    this.#hasHard = ofStarts.some(({ hard }) => hard === true);
    this.#spent = spent;
    this.#gates.clear();
    this.#sweep = undefined;
    this.dirty.clear();
    this.shut.clear();
    this.version++;
  }

  /** The gates that an attempt of this job passes, the narrowest first; without that of its seat. */
  of(ask: GatedAsk, model: string | undefined, now: number): Gate[] {
    const gates: Gate[] = [];
    if (this.isEmpty) return gates;
    this.#sweepSome();
    const { tenant, submittedBy, spec, route, ancestors } = ask;
    const add = (kind: string, scope: () => string): void => {
      if (this.#kinds.has(kind)) this.#add(gates, scope(), now);
      if (tenant !== DEFAULT_TENANT && this.#kinds.has(ownScope(kind)))
        this.#add(gates, ownScope(scope()), now);
    };
    if (spec.session_id !== undefined)
      add('session', () => scopes.session(tenant, spec.session_id as string));
    add('root', () => scopes.root(tenant, ancestors?.[0] ?? ask.id));
    add('agent', () => scopes.agent(tenant, spec.agent));
    add('token', () => scopes.token(tenant, submittedBy));
    if (route !== undefined) add('route', () => scopes.route(route));
    add('tenant', () => scopes.tenant(tenant));
    if (model !== undefined && this.#kinds.has('model')) this.#add(gates, scopes.model(model), now);
    if (this.#kinds.has('global')) this.#add(gates, scopes.global, now);
    return gates;
  }

  seat(backend: string, now: number): Gate | undefined {
    return this.#kinds.has('seat') ? this.find(scopes.seat(backend), now) : undefined;
  }

  pool(name: string, now: number): Gate | undefined {
    return this.#kinds.has('pool') ? this.find(scopes.pool(name), now) : undefined;
  }

  /** The gate of a scope, or the one that it shares; undefined if its starts are not limited. */
  find(scope: string, now: number): Gate | undefined {
    const known = this.#gates.get(scope);
    if (known) return known;
    const limit = this.#table.find(scope);
    if (!limit) return undefined;
    const isShared = this.#gates.size >= this.#maxGates && limit.scope.endsWith('*');
    const name = isShared ? (patternOf(scope) ?? limit.scope) : scope;
    const gate = this.#gates.get(name) ?? this.#made(name, limit, now);
    this.#gates.set(name, gate);
    return gate;
  }

  /** An attempt passes its gates; `reserved` is what it holds. */
  begin(gates: readonly Gate[], reserved: number): void {
    if (reserved > 0) for (const gate of gates) gate.reserved += reserved;
  }

  /** An attempt is closed: what it held is replaced by what it has cost. */
  settle(gates: readonly Gate[], reserved: number, cost: number, now: number): void {
    for (const gate of gates) {
      gate.roll(now);
      gate.reserved -= reserved;
      gate.settled += cost;
      if (gate.limit.costBudget === undefined) continue;
      this.dirty.add(gate);
    }
    this.version++;
  }

  run(gates: readonly Gate[], by: 1 | -1): void {
    for (const gate of gates) gate.running += by;
    if (by < 0) this.version++;
  }

  /** Begins the windows that are due of gates that hold something up. Returns those. */
  rollDue(now: number): Gate[] {
    const rolled: Gate[] = [];
    for (const gate of this.shut) {
      if (!gate.roll(now)) continue;
      this.shut.delete(gate);
      rolled.push(gate);
    }
    if (rolled.length > 0) this.version++;
    return rolled;
  }

  nextRoll(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const gate of this.shut) next = Math.min(next, gate.rollsAt);
    return next;
  }

  values(): IterableIterator<Gate> {
    return this.#gates.values();
  }

  /** The use of every cost budget whose limit names its scope, without those of patterns: there may be any number. */
  *namedBudgets(now: number): Generator<BudgetUse> {
    for (const limit of this.#table.values()) {
      if (limit.costBudget === undefined || limit.scope.endsWith('*')) continue;
      const use = budgetUse(this.#gates.get(limit.scope) ?? this.#made(limit.scope, limit, now), now);
      if (use) yield use;
    }
  }

  /** What is used to at least this share, among the first MAX_LOOKED gates. */
  *near(share: number, now: number): Generator<GateUse> {
    let looked = 0;
    for (const gate of this.#gates.values()) {
      if (++looked > MAX_LOOKED) return;
      yield* nearUses(gate, share, now);
    }
  }

  #made(name: string, limit: Limit, now: number): Gate {
    const gate = new Gate(name, limit, now);
    const spent = this.#spent(name);
    if (spent) gate.resume(spent);
    return gate;
  }

  #add(gates: Gate[], scope: string, now: number): void {
    const gate = this.find(scope, now);
    if (!gate || gates.includes(gate)) return;
    gate.roll(now);
    gates.push(gate);
  }

  #sweepSome(): void {
    for (let looked = 0; looked < SWEPT_PER_CALL; looked++) {
      this.#sweep ??= this.#gates.values();
      const { value, done } = this.#sweep.next();
      if (done) this.#sweep = undefined;
      else if (value.isIdle && !this.dirty.has(value)) this.#gates.delete(value.name);
    }
  }
}

const kindOf = (scope: string): string => {
  const colon = scope.indexOf(':');
  return colon < 0 ? scope : scope.slice(0, colon);
};

/** Whether a gate holds up all jobs of a lane alike. */
export const isBroad = ({ name }: Gate): boolean => BROAD.has(kindOf(name));
