/**
 * The limiter: limits of many scopes that apply at once, and may change while jobs run.
 *
 * L1  All or nothing: a reservation takes from every scope, a refusal from none.
 * L2  A reservation ends once, settled or released; a second end changes nothing.
 * L3  Memory is bounded. An account that is full and holds nothing is dropped: a new one would be in the same state.
 *     Beyond `maxAccounts`, the new scopes of a tenant share one account per pattern that limits them. Sharing is
 *     stricter than a limit each, never laxer; scopes without a limit are not counted then.
 * L4  The cost of a call grows with the scopes it names, not with the number of accounts; only `configure` visits all, and
 *     `near` so many that a turn stays short.
 * L5  Buckets and budgets go on after a restart where they were: the caller stores what `kept` says of every account in
 *     `dirty`, in the commit of what changed it, and `find` goes on from there.
 */
import type { SpentRecord } from '../../model/limit-records.ts';
import { Account, type Cost, type Hold, type LimitedResource, type LimitUse } from './account.ts';
import { type Limit, LimitTable, patternOf } from './limit.ts';

/** What was taken and from which accounts. Ended by `settle` or `release`. */
export interface Reservation extends Hold {
  /** The names of the charged accounts. */
  readonly accounts: readonly string[];
  ended: boolean;
}

export type ReserveResult =
  | { readonly ok: true; readonly reservation: Reservation }
  | {
      readonly ok: false;
      /** The scope that refuses; if several do, the one with the most severe shortage. */
      readonly scope: string;
      readonly what: LimitedResource;
      /** When to retry; undefined if waiting alone does not help. */
      readonly retryAfterMs: number | undefined;
    };

export interface ScopeUsage {
  readonly running: number;
  /** Tokens charged to the budget; undefined without a budget. */
  readonly spent: number | undefined;
  /** The levels of the buckets: undefined without a limit, negative while in debt. */
  readonly requests: number | undefined;
  readonly tokens: number | undefined;
}

/** This many accounts take about 20 MB. */
const MAX_ACCOUNTS = 100_000;
/** Accounts checked for idleness per scope of a call: more than a call can add, so idle accounts do not pile up. */
const SWEPT_PER_SCOPE = 2;
/** Looking at this many accounts takes a few milliseconds. */
const MAX_LOOKED = 10_000;

export class Limiter {
  /** The names of accounts whose stored levels are out of date, those that were dropped included. */
  readonly dirty = new Set<string>();
  readonly #maxAccounts: number;
  #stored: (scope: string) => SpentRecord | undefined = () => undefined;
  readonly #accounts = new Map<string, Account>();
  #table = new LimitTable([]);
  /** Limits of single scopes that no table has: the budgets that jobs give themselves (admission/tree-budget.ts). */
  readonly #own = new Map<string, Limit>();
  #sweep: Iterator<Account> | undefined;

  constructor(maxAccounts: number = MAX_ACCOUNTS) {
    this.#maxAccounts = maxAccounts;
  }

  get size(): number {
    return this.#accounts.size;
  }

  /** Replaces all limits. Levels, debts, budgets and open reservations stay. `stored` reads what was kept of a scope. */
  configure(
    limits: readonly Limit[],
    now: number,
    stored: (scope: string) => SpentRecord | undefined = () => undefined,
  ): void {
    this.#table = new LimitTable(limits);
    this.#stored = stored;
    for (const account of this.#accounts.values()) {
      const before = account.limit;
      account.configure(this.#limitOf(account.name), now);
      // A scope that was not limited has not counted what it used; what was stored of it still counts.
      if (!before && account.limit) this.#resume(account, now);
    }
  }

  /** Limits one scope beside the table. */
  limitOwn(limit: Limit, now: number): void {
    this.#own.set(limit.scope, limit);
    this.#accounts.get(limit.scope)?.configure(limit, now);
  }

  hasOwn(scope: string): boolean {
    return this.#own.has(scope);
  }

  get ownCount(): number {
    return this.#own.size;
  }

  /** Drops the limit of a scope that is over, and what was counted for it; the caller's store drops its record. */
  dropOwn(scope: string): void {
    if (!this.#own.delete(scope)) return;
    this.#accounts.delete(scope);
    this.dirty.add(scope);
  }

  reserve(scopes: readonly string[], cost: Cost, now: number): ReserveResult {
    const clean = cleanCost(cost);
    const accounts = this.#accountsOf(scopes, now);
    let refusal: Extract<ReserveResult, { ok: false }> | undefined;
    let worst = -1;
    for (const account of accounts) {
      const shortage = account.shortage(clean, now);
      if (!shortage) continue;
      const severity = severityOf(shortage.what, shortage.waitMs);
      if (severity <= worst) continue;
      worst = severity;
      const retryAfterMs = Number.isFinite(shortage.waitMs) ? shortage.waitMs : undefined;
      refusal = { ok: false, scope: account.name, what: shortage.what, retryAfterMs };
    }
    if (refusal) return refusal;
    const reservation = reservationOf(accounts, clean, now);
    for (const account of accounts) account.take(reservation, now);
    return { ok: true, reservation };
  }

  /** The job of a reservation was admitted: what it took must be stored. */
  admitted({ accounts }: Reservation): void {
    for (const name of accounts) {
      const account = this.#accounts.get(name);
      if (account) this.#changed(account);
    }
  }

  /**
   * Counts a live job without refusing it. Its cost was taken from the buckets when it was admitted, at `at`, or they came
   * later.
   */
  restore(scopes: readonly string[], cost: Cost, at: number, now: number): Reservation {
    const accounts = this.#accountsOf(scopes, now);
    const reservation = reservationOf(accounts, cleanCost(cost), at);
    for (const account of accounts) account.hold(reservation);
    return reservation;
  }

  /** The job has ended: unused tokens are returned, use beyond the estimate becomes a debt. */
  settle(reservation: Reservation, realTokens: number, now: number): void {
    const real = Number.isFinite(realTokens) ? Math.max(0, realTokens) : reservation.tokens;
    this.#end(reservation, (account) => account.settle(reservation, real, now));
  }

  /** The job never ran. */
  release(reservation: Reservation, now: number): void {
    this.#end(reservation, (account) => account.release(reservation, now));
  }

  /** The job was refused for another reason: everything is as before, and nothing needs to be stored. */
  undo(reservation: Reservation, now: number): void {
    const before = reservation.accounts.filter((name) => this.dirty.has(name));
    this.release(reservation, now);
    for (const name of reservation.accounts) if (!before.includes(name)) this.dirty.delete(name);
  }

  /** Drops the account of a scope that is gone for good, such as a deleted session. */
  forget(scope: string): void {
    const account = this.#accounts.get(scope);
    if (account && account.running === 0) this.#accounts.delete(scope);
    this.dirty.delete(scope);
  }

  usage(scope: string, now: number): ScopeUsage {
    const account = this.#accounts.get(scope) ?? new Account(scope, this.#limitOf(scope), now);
    const { running, requests, tokens } = account;
    const spent = account.limit?.tokenBudget === undefined ? undefined : account.spent;
    requests?.refill(now);
    tokens?.refill(now);
    return { running, spent, requests: requests?.level, tokens: tokens?.level };
  }

  /** What is used to at least this share, of the first MAX_LOOKED accounts. */
  *near(share: number, now: number): Generator<LimitUse & { readonly scope: string }> {
    let looked = 0;
    for (const account of this.#accounts.values()) {
      if (++looked > MAX_LOOKED) return;
      for (const use of account.uses(now))
        if (use.used >= share * use.of) yield { scope: account.name, ...use };
    }
  }

  /** What must be stored of a scope for a later brain; undefined if nothing must be. */
  kept(scope: string, now: number): Omit<SpentRecord, 'v' | 'at'> | undefined {
    return this.#accounts.get(scope)?.kept(now);
  }

  #end(reservation: Reservation, end: (account: Account) => void): void {
    if (reservation.ended) return;
    reservation.ended = true;
    for (const name of reservation.accounts) {
      const account = this.#accounts.get(name);
      if (!account) continue;
      end(account);
      this.#changed(account);
      // A scope without a limit has an account only while it is busy, in case a limit is configured meanwhile.
      if (!account.limit && account.running === 0) this.#accounts.delete(name);
    }
  }

  #accountsOf(scopes: readonly string[], now: number): Account[] {
    // Sweep first: an account that is fetched but not yet charged looks idle and would be dropped.
    this.#sweepSome(scopes.length * SWEPT_PER_SCOPE, now);
    const accounts: Account[] = [];
    for (const scope of scopes) {
      const account = this.#account(scope, now);
      if (account && !accounts.includes(account)) accounts.push(account);
    }
    return accounts;
  }

  #account(scope: string, now: number): Account | undefined {
    const known = this.#accounts.get(scope);
    if (known) return known;
    const limit = this.#limitOf(scope);
    // A scope that a limit names, not by a pattern, always gets its own account: there are only as many as were configured.
    if (this.#accounts.size < this.#maxAccounts || (limit && !limit.scope.endsWith('*')))
      return this.#add(scope, limit, now);
    if (!limit) return undefined;
    const shared = patternOf(scope) ?? limit.scope;
    return this.#accounts.get(shared) ?? this.#add(shared, limit, now);
  }

  #limitOf(scope: string): Limit | undefined {
    return this.#own.get(scope) ?? this.#table.find(scope);
  }

  #add(name: string, limit: Limit | undefined, now: number): Account {
    const account = new Account(name, limit, now);
    this.#accounts.set(name, account);
    if (limit) this.#resume(account, now);
    return account;
  }

  #resume(account: Account, now: number): void {
    const record = this.#stored(account.name);
    if (record) account.resume(record, now);
  }

  #changed({ name, limit }: Account): void {
    if (limit) this.dirty.add(name);
  }

  #sweepSome(count: number, now: number): void {
    for (let looked = 0; looked < count; looked++) {
      this.#sweep ??= this.#accounts.values();
      const { value, done } = this.#sweep.next();
      if (done) this.#sweep = undefined;
      else if (value.isIdle(now)) {
        this.#accounts.delete(value.name);
        this.#changed(value);
      }
    }
  }
}

const reservationOf = (
  accounts: readonly Account[],
  { requests, tokens }: Cost,
  at: number,
): Reservation => ({
  accounts: accounts.map(({ name }) => name),
  requests,
  tokens,
  at,
  ended: false,
});

/** Ranks shortages: an exhausted budget is the most severe, then the longer wait; concurrency may end at any moment. */
function severityOf(what: LimitedResource, waitMs: number): number {
  if (what === 'concurrency') return 0;
  return what === 'budget' ? Number.POSITIVE_INFINITY : Math.min(waitMs, Number.MAX_VALUE);
}

const cleanCost = ({ requests, tokens }: Cost): Cost => ({
  requests: clean(requests),
  tokens: clean(tokens),
});

const clean = (amount: number): number => (Number.isFinite(amount) && amount > 0 ? amount : 0);
