/**
 * The one limiter: limits of many scopes that hold at once, and may change while work is under way.
 *
 * L1  All or nothing: a reservation takes from every scope, a refusal from none.
 * L2  A reservation ends once, settled or released; a second end changes nothing.
 * L3  Memory is bounded. An account that is full and holds nothing is dropped: made anew it would be the same.
 *     Past `maxAccounts` those who have none yet share one account for each pattern that limits them. Sharing
 *     is stricter than a limit each, never laxer; scopes that nothing limits are no longer counted then.
 * L4  A call costs as much as it names scopes, however many accounts there are; only `configure` visits all.
 * L5  Rates begin anew with every brain; budgets do not: whoever keeps what they have spent tells it by `load`.
 */
import { Account, type Cost, type Hold, type What } from './account.ts';
import { type Limit, LimitTable } from './limit.ts';

/** What was taken, from whom; a plain value. Ended by `settle` or `release`. */
export interface Reservation extends Hold {
  /** The accounts that were charged. */
  readonly accounts: readonly string[];
  ended: boolean;
}

export type Reserved =
  | { readonly ok: true; readonly reservation: Reservation }
  | {
      readonly ok: false;
      /** The scope that refuses; where several do, the one that takes longest. */
      readonly scope: string;
      readonly what: What;
      /** When to ask again; undefined where no passing of time alone would help. */
      readonly retryAfterMs: number | undefined;
    };

export interface Usage {
  readonly running: number;
  /** Tokens charged to the budget; undefined where there is none. */
  readonly spent: number | undefined;
  /** What could be taken now; undefined where it is not limited, below zero where there is a debt. */
  readonly requests: number | undefined;
  readonly tokens: number | undefined;
}

/** About 20 MB of accounts. */
const MAX_ACCOUNTS = 100_000;
/** Old accounts looked at for each scope that is named: they go faster than new ones can come. */
const SWEPT_PER_SCOPE = 2;

export class Limiter {
  readonly #maxAccounts: number;
  readonly #accounts = new Map<string, Account>();
  #table = new LimitTable([]);
  #sweep: Iterator<Account> | undefined;

  constructor(maxAccounts: number = MAX_ACCOUNTS) {
    this.#maxAccounts = maxAccounts;
  }

  get size(): number {
    return this.#accounts.size;
  }

  /** Replaces all limits. Levels, debts, budgets and open reservations stay. */
  configure(limits: readonly Limit[], now: number): void {
    this.#table = new LimitTable(limits);
    for (const account of this.#accounts.values()) account.configure(this.#table.find(account.name), now);
  }

  reserve(scopes: readonly string[], cost: Cost, now: number): Reserved {
    const clean = cleanCost(cost);
    const accounts = this.#accountsOf(scopes, now);
    let refusal: Extract<Reserved, { ok: false }> | undefined;
    let longest = -1;
    for (const account of accounts) {
      const shortage = account.shortage(clean, now);
      if (!shortage) continue;
      const wait = gravity(shortage.what, shortage.waitMs);
      if (wait <= longest) continue;
      longest = wait;
      const retryAfterMs = Number.isFinite(shortage.waitMs) ? shortage.waitMs : undefined;
      refusal = { ok: false, scope: account.name, what: shortage.what, retryAfterMs };
    }
    return refusal ?? { ok: true, reservation: take(accounts, clean, now) };
  }

  /** Takes, without refusing, what a job that is under way holds; `requests: 0` where it was asked for long ago. */
  restore(scopes: readonly string[], cost: Cost, now: number): Reservation {
    return take(this.#accountsOf(scopes, now), cleanCost(cost), now);
  }

  /** The job has ended: what it did not use comes back, what it used beyond its estimate becomes a debt. */
  settle(reservation: Reservation, realTokens: number, now: number): void {
    const real = Number.isFinite(realTokens) ? Math.max(0, realTokens) : reservation.tokens;
    this.#end(reservation, (account) => account.settle(reservation, real, now));
  }

  /** The job never ran. */
  release(reservation: Reservation, now: number): void {
    this.#end(reservation, (account) => account.release(reservation, now));
  }

  /** The scope is gone for good, such as a session that was closed: its budget need not be remembered. */
  forget(scope: string): void {
    const account = this.#accounts.get(scope);
    if (account && account.running === 0) this.#accounts.delete(scope);
  }

  usage(scope: string, now: number): Usage {
    const account = this.#accounts.get(scope) ?? new Account(scope, this.#table.find(scope), now);
    const { running, requests, tokens } = account;
    const spent = account.limit?.tokenBudget === undefined ? undefined : account.spent;
    requests?.refill(now);
    tokens?.refill(now);
    return { running, spent, requests: requests?.level, tokens: tokens?.level };
  }

  /** Those of its accounts that have a budget, with what was spent there by jobs that are over. */
  *spent({ accounts }: Reservation): Generator<readonly [scope: string, tokens: number]> {
    for (const name of accounts) {
      const account = this.#accounts.get(name);
      if (account?.limit?.tokenBudget !== undefined) yield [name, account.settled];
    }
  }

  /** Call after `configure`. */
  load(scope: string, spent: number, now: number): void {
    const account = this.#account(scope, now);
    if (account?.name === scope && account.limit) account.settled = spent;
  }

  #end(reservation: Reservation, end: (account: Account) => void): void {
    if (reservation.ended) return;
    reservation.ended = true;
    for (const name of reservation.accounts) {
      const account = this.#accounts.get(name);
      if (!account) continue;
      end(account);
      // Scopes without a limit are counted only while they are busy, for a limit that may come.
      if (!account.limit && account.running === 0) this.#accounts.delete(name);
    }
  }

  #accountsOf(scopes: readonly string[], now: number): Account[] {
    // Before any is fetched: one that is about to be charged is still idle.
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
    const limit = this.#table.find(scope);
    // Limits that name their scope are as many as were configured: they always get their own.
    if (this.#accounts.size < this.#maxAccounts || limit?.scope === scope)
      return this.#add(scope, limit, now);
    return limit && (this.#accounts.get(limit.scope) ?? this.#add(limit.scope, limit, now));
  }

  #add(name: string, limit: Limit | undefined, now: number): Account {
    const account = new Account(name, limit, now);
    this.#accounts.set(name, account);
    return account;
  }

  #sweepSome(count: number, now: number): void {
    for (let looked = 0; looked < count; looked++) {
      this.#sweep ??= this.#accounts.values();
      const { value, done } = this.#sweep.next();
      if (done) this.#sweep = undefined;
      else if (value.isIdle(now)) this.#accounts.delete(value.name);
    }
  }
}

function take(accounts: readonly Account[], { requests, tokens }: Cost, now: number): Reservation {
  const reservation = { accounts: accounts.map(({ name }) => name), requests, tokens, at: now, ended: false };
  for (const account of accounts) account.take(reservation, now);
  return reservation;
}

/** What cannot be waited for first; of two waits the longer one; a place that may be free at any moment last. */
function gravity(what: What, waitMs: number): number {
  if (what === 'concurrency') return 0;
  return what === 'budget' ? Number.POSITIVE_INFINITY : Math.min(waitMs, Number.MAX_VALUE);
}

const cleanCost = ({ requests, tokens }: Cost): Cost => ({
  requests: clean(requests),
  tokens: clean(tokens),
});

const clean = (amount: number): number => (Number.isFinite(amount) && amount > 0 ? amount : 0);
