/**
 * The gates of all scopes whose starts are limited: found by the scopes of a job, and counted by its attempts.
 *
 * Broad gates (all jobs, a model) hold up whole lanes; narrow ones (a tenant, an agent, a token, a session, a route, a
 * tree of jobs) hold up the jobs of their scope, which wait at the gate, in order, while others go on. The gate of a seat
 * holds up that backend.
 */

import { jobKindOf } from '../../model/governance.ts';
import type { SpentRecord } from '../../model/limit-records.ts';
import { type AskRecord, DEFAULT_TENANT } from '../../model/records.ts';
import { Gate } from './gate.ts';
import { type BudgetUse, budgetUse, type GateUse, nearUses } from './gate-use.ts';
import {
  isModeScope,
  isStartLimit,
  kindOf,
  type Limit,
  LimitTable,
  ownScope,
  patternOf,
  scopes,
} from './limit.ts';
import { ModeGate } from './mode-gate.ts';

/** More gates than these share one by the pattern of their limit: stricter than a gate each, never laxer. */
const MAX_GATES = 100_000;
/** Idle gates are looked for in every so many look-ups, twice as many gates at once. */
const CALLS_PER_SWEEP = 16;
/** Callers whose gates are remembered. */
const MAX_KNOWN = 1000;
/** Gates that one read looks at. */
const MAX_LOOKED = 10_000;

/** The fields of a job that decide which gates it passes. */
export type GatedAsk = Pick<AskRecord, 'id' | 'tenant' | 'submittedBy' | 'spec' | 'route'> &
  Partial<Pick<AskRecord, 'ancestors'>>;

/** The gates that were found for an agent, and all else that decided which ones they are. */
interface KnownGates extends Pick<AskRecord, 'tenant' | 'submittedBy' | 'route'> {
  readonly type: string;
  readonly model: string | undefined;
  readonly gates: readonly Gate[];
}

/** The kinds of scopes that are another one for nearly every job. */
const FLEETING = ['session', 'root'].flatMap((kind) => [kind, ownScope(kind)]);

export class Gates {
  /** Raised when a gate may let through more than before: lanes that were held up are looked at again. */
  version = 0;
  /** Raised when gates were dropped: one that was looked up before may be another object now. */
  generation = 0;
  /** Gates whose spent record is out of date. */
  readonly dirty = new Set<Gate>();
  readonly #maxGates: number;
  readonly #gates = new Map<string, Gate>();
  #table = new LimitTable([]);
  /** Hard budgets of single scopes that no table has: those that jobs give themselves (admission/tree-budget.ts). */
  readonly #own = new Map<string, Limit>();
  /** The kinds of scopes that are limited: the names of others need not be made. */
  #kinds: ReadonlySet<string> = new Set();
  #hasHard = false;
  /** Whether a limit bounds how many attempts run: only then can a job wait before it is picked. */
  hasRunning = false;
  #spent: (scope: string) => SpentRecord | undefined = () => undefined;
  #sweep: Iterator<Gate> | undefined;
  #callsUntilSweep = CALLS_PER_SWEEP;
  /** The gates found last for an agent; empty while fleeting scopes are limited. Looking names up takes longer. */
  readonly #known = new Map<string, KnownGates>();
  #isKnowable = true;
  /** Gates that hold something up until their window is over. */
  readonly #shut = new Set<Gate>();
  /** No window of a gate in `#shut` is over before this instant. */
  #nextRoll = Number.POSITIVE_INFINITY;
  /** Gates in `#shut` whose next window has begun. */
  #rolled: Gate[] = [];

  constructor(maxGates: number = MAX_GATES) {
    this.#maxGates = maxGates;
  }

  get isEmpty(): boolean {
    return this.#kinds.size === 0 && this.#own.size === 0;
  }

  /** Whether a budget is hard: only then can a job be refused for its cost. */
  get hasHard(): boolean {
    return this.#hasHard || this.#own.size > 0;
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
    this.hasRunning = ofStarts.some(({ running }) => running !== undefined);
    this.#spent = spent;
    this.#isKnowable = !FLEETING.some((kind) => this.#kinds.has(kind));
    this.#gates.clear();
    this.#forget();
    this.#sweep = undefined;
    this.dirty.clear();
    this.#shut.clear();
    this.#nextRoll = Number.POSITIVE_INFINITY;
    this.#rolled = [];
    this.version++;
  }

  /** Limits one scope beside the table. `spent` reads what it has used so far. */
  limitOwn(limit: Limit, spent: (scope: string) => SpentRecord | undefined): void {
    this.#spent = spent;
    this.#own.set(limit.scope, limit);
    // A gate that follows the table alone until now is made anew; a scope is limited before jobs pass its gate.
    this.#gates.delete(limit.scope);
    this.#forget();
  }

  hasOwn(scope: string): boolean {
    return this.#own.has(scope);
  }

  get ownCount(): number {
    return this.#own.size;
  }

  /** Drops the limit of a scope that is over. Attempts that are open still settle with the gate that they have passed. */
  dropOwn(scope: string): void {
    if (!this.#own.delete(scope)) return;
    this.#gates.delete(scope);
    this.#forget();
    this.version++;
  }

  /** The gates that an attempt of this job passes, the narrowest first; without that of its seat. */
  of(ask: GatedAsk, model: string | undefined, now: number): readonly Gate[] {
    if (this.isEmpty) return NONE;
    if (--this.#callsUntilSweep === 0) this.#sweepSome(now);
    if (!this.#isKnowable || (this.#own.size > 0 && ask.ancestors)) return this.#find(ask, model, now);
    const { tenant, submittedBy, route, spec } = ask;
    const known = this.#known.get(spec.agent);
    if (known && known.tenant === tenant && known.submittedBy === submittedBy)
      if (known.route === route && known.model === model && known.type === spec.type) {
        for (const gate of known.gates) this.#roll(gate, now);
        return known.gates;
      }
    const gates = this.#find(ask, model, now);
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(spec.agent, { type: spec.type, tenant, submittedBy, route, model, gates });
    return gates;
  }

  #find(ask: GatedAsk, model: string | undefined, now: number): readonly Gate[] {
    const gates: Gate[] = [];
    const { tenant, submittedBy, spec, route, ancestors } = ask;
    const add = (kind: string, scope: () => string): void => {
      if (this.#kinds.has(kind)) this.#add(gates, scope(), now);
      if (tenant !== DEFAULT_TENANT && this.#kinds.has(ownScope(kind)))
        this.#add(gates, ownScope(scope()), now);
    };
    if (spec.session_id !== undefined)
      add('session', () => scopes.session(tenant, spec.session_id as string));
    if (this.#own.size > 0)
      for (const id of ancestors ?? []) {
        const scope = scopes.root(tenant, id);
        if (this.#own.has(scope)) this.#add(gates, scope, now);
      }
    add('root', () => scopes.root(tenant, ancestors?.[0] ?? ask.id));
    add('agent', () => scopes.agent(tenant, spec.agent));
    add('token', () => scopes.token(tenant, submittedBy));
    if (this.#kinds.has('key')) this.#add(gates, scopes.key(tenant, submittedBy), now);
    if (route !== undefined) add('route', () => scopes.route(route));
    add('tenant', () => scopes.tenant(tenant));
    if (model !== undefined && this.#kinds.has('model')) this.#add(gates, scopes.model(model), now);
    if (this.#kinds.has('mode')) {
      const kind = jobKindOf(spec);
      if (kind !== undefined) this.#add(gates, scopes.mode(kind), now);
    }
    if (this.#kinds.has('global')) this.#add(gates, scopes.global, now);
    return gates;
  }

  seat(backend: string, now: number): Gate | undefined {
    return this.#kinds.has('seat') ? this.find(scopes.seat(backend), now) : undefined;
  }

  get limitsPools(): boolean {
    return this.#kinds.has('pool');
  }

  pool(name: string, now: number): Gate | undefined {
    return this.#kinds.has('pool') ? this.find(scopes.pool(name), now) : undefined;
  }

  /** The gate of a scope in its present window, or the one that it shares; undefined if its starts are not limited. */
  find(scope: string, now: number): Gate | undefined {
    const known = this.#gates.get(scope);
    if (known) return this.#roll(known, now);
    const limit = strictest(this.#own.get(scope), this.#table.find(scope));
    if (!limit) return undefined;
    const isShared = this.#gates.size >= this.#maxGates && limit.scope.endsWith('*');
    const name = isShared ? (patternOf(scope) ?? limit.scope) : scope;
    const shared = this.#gates.get(name);
    if (shared) return this.#roll(shared, now);
    const gate = this.#made(name, limit, now);
    this.#gates.set(name, gate);
    return gate;
  }

  /** An attempt passes its gates; `reserved` is what it holds. */
  begin(gates: readonly Gate[], reserved: number): void {
    for (const gate of gates) {
      gate.open++;
      gate.reserved += reserved;
    }
  }

  /** An attempt is closed: what it held is replaced by what it has cost. */
  settle(gates: readonly Gate[], reserved: number, cost: number, now: number): void {
    for (const gate of gates) {
      this.#roll(gate, now);
      gate.open--;
      gate.reserved -= reserved;
      if (gate.limit.costBudget === undefined) continue;
      gate.settled += cost;
      this.dirty.add(gate);
    }
    this.version++;
  }

  /** An attempt that passes these gates starts. */
  noteStart(gates: readonly Gate[], now: number): void {
    for (const gate of gates) if (gate.noteStart(now)) this.dirty.add(gate);
  }

  run(gates: readonly Gate[], by: 1 | -1): void {
    for (const gate of gates) gate.running += by;
    if (by < 0) this.version++;
  }

  /** The gate holds something up: its next window may let it go. */
  shut(gate: Gate): void {
    if (gate.rollsAt === Number.POSITIVE_INFINITY) return;
    this.#shut.add(gate);
    this.#nextRoll = Math.min(this.#nextRoll, gate.rollsAt);
  }

  /** Begins the windows that are due of gates that hold something up. Returns those in which one has begun. */
  rollDue(now: number): readonly Gate[] {
    if (now >= this.#nextRoll) {
      this.#nextRoll = Number.POSITIVE_INFINITY;
      for (const gate of this.#shut) {
        this.#roll(gate, now);
        if (this.#shut.has(gate)) this.#nextRoll = Math.min(this.#nextRoll, gate.rollsAt);
      }
    }
    if (this.#rolled.length === 0) return NONE;
    const rolled = this.#rolled;
    this.#rolled = [];
    this.version++;
    return rolled;
  }

  /** Brain time was stepped. */
  moveInstants(byMs: number): void {
    for (const gate of this.#gates.values()) gate.moveInstants(byMs);
    this.#nextRoll = Number.POSITIVE_INFINITY;
    for (const { rollsAt } of this.#shut) this.#nextRoll = Math.min(this.#nextRoll, rollsAt);
  }

  nextRoll(): number {
    return this.#nextRoll;
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
    const gate = isModeScope(name) ? new ModeGate(name, limit, now) : new Gate(name, limit, now);
    const spent = this.#spent(name);
    if (spent) gate.resume(spent);
    return gate;
  }

  #add(gates: Gate[], scope: string, now: number): void {
    const gate = this.find(scope, now);
    if (gate && !gates.includes(gate)) gates.push(gate);
  }

  /** Begins the present window of the gate. Whoever comes first may do that: what the gate holds up is told by rollDue. */
  #roll(gate: Gate, now: number): Gate {
    if (!gate.roll(now)) return gate;
    if (gate.limit.costBudget !== undefined) this.dirty.add(gate);
    if (this.#shut.delete(gate)) this.#rolled.push(gate);
    return gate;
  }

  /** Drops idle gates. One whose window is over is stored first, so that its spent record goes too. */
  #sweepSome(now: number): void {
    this.#callsUntilSweep = CALLS_PER_SWEEP;
    for (let looked = 0; looked < 2 * CALLS_PER_SWEEP; looked++) {
      this.#sweep ??= this.#gates.values();
      const { value, done } = this.#sweep.next();
      if (done) {
        this.#sweep = undefined;
        return;
      }
      this.#roll(value, now);
      if (!value.isIdle || this.dirty.has(value)) continue;
      this.#gates.delete(value.name);
      this.#forget();
    }
  }

  /** Gates that were found before may be other objects now. */
  #forget(): void {
    this.generation++;
    this.#known.clear();
  }
}

const NONE: readonly Gate[] = [];

/** The budget that a job gives itself, and what the table says of its tree: both hold. */
function strictest(own: Limit | undefined, table: Limit | undefined): Limit | undefined {
  if (!own || !table) return own ?? table;
  const ofTable = table.hard ? (table.costBudget ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY;
  return { ...own, running: table.running, costBudget: Math.min(own.costBudget ?? ofTable, ofTable) };
}
