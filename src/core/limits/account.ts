/** The use of one scope: its buckets, its open reservations and its token budget. */
import type { SpentRecord } from '../../model/limit-records.ts';
import { Bucket } from './bucket.ts';
import { BudgetWindow } from './budget-window.ts';
import type { Limit } from './limit.ts';

export interface Cost {
  readonly requests: number;
  /** An estimate; the real number is known when the job has ended. */
  readonly tokens: number;
}

/** The cost that one reservation has taken. */
export interface Hold extends Cost {
  /** When it was taken. */
  readonly at: number;
}

export type LimitedResource = 'requests' | 'tokens' | 'concurrency' | 'budget';

/** The resource that does not suffice. `waitMs` is Infinity if waiting alone does not help. */
export interface Shortage {
  readonly what: LimitedResource;
  readonly waitMs: number;
}

/** How much of a limited resource is used; more than `of` while a bucket is in debt. */
export interface LimitUse {
  readonly what: LimitedResource;
  readonly used: number;
  readonly of: number;
}

const NO_ROOM: Shortage = { what: 'concurrency', waitMs: Number.POSITIVE_INFINITY };
const NO_BUDGET: Shortage = { what: 'budget', waitMs: Number.POSITIVE_INFINITY };

export class Account {
  readonly name: string;
  limit: Limit | undefined;
  requests: Bucket | undefined;
  tokens: Bucket | undefined;
  /** The number of open reservations. */
  running = 0;
  /** Tokens used so far, including those held by open reservations. */
  spent = 0;
  /** Tokens held by open reservations. */
  #held = 0;
  #window!: BudgetWindow;

  constructor(name: string, limit: Limit | undefined, now: number) {
    this.name = name;
    this.#setLimit(limit, now, Number.NEGATIVE_INFINITY);
  }

  /** Tokens used by ended reservations. */
  get settled(): number {
    return this.spent - this.#held;
  }

  set settled(tokens: number) {
    this.spent = tokens + this.#held;
  }

  configure(limit: Limit | undefined, now: number): void {
    this.#setLimit(limit, now, now);
  }

  #setLimit(limit: Limit | undefined, now: number, since: number): void {
    this.limit = limit;
    this.#window = new BudgetWindow(limit ?? {}, now);
    const { requestsPerSec: perSec, tokensPerSec, burstRequests, burstTokens } = limit ?? {};
    this.requests = updatedBucket(
      this.requests,
      perSec,
      burstRequests ?? Math.max(1, perSec ?? 0),
      now,
      since,
    );
    this.tokens = updatedBucket(this.tokens, tokensPerSec, burstTokens ?? tokensPerSec ?? 0, now, since);
  }

  /** What is kept of this account for a later brain; undefined if nothing of it must be. */
  kept(now: number): Omit<SpentRecord, 'v' | 'at'> | undefined {
    if (!this.limit || (this.limit.tokenBudget === undefined && !this.requests && !this.tokens))
      return undefined;
    this.#roll(now);
    this.requests?.refill(now);
    this.tokens?.refill(now);
    const { start } = this.#window;
    return {
      tokens: this.settled,
      ...(start !== undefined && { window: start }),
      ...(this.requests && { requestLevel: this.requests.level }),
      ...(this.tokens && { tokenLevel: this.tokens.level }),
    };
  }

  /** Goes on where an earlier brain was. */
  resume(record: SpentRecord, now: number): void {
    this.settled = this.#window.resume(record) ? record.tokens : 0;
    if (record.requestLevel !== undefined) this.requests?.resume(record.requestLevel, record.at, now);
    if (record.tokenLevel !== undefined) this.tokens?.resume(record.tokenLevel, record.at, now);
  }

  #roll(now: number): void {
    if (this.#window.roll(now)) this.settled = 0;
  }

  /** The most severe shortage: an exhausted budget, then a bucket with a known wait, then the concurrency. */
  shortage(cost: Cost, now: number): Shortage | undefined {
    this.#roll(now);
    const budget = this.limit?.tokenBudget;
    if (budget !== undefined && (this.spent >= budget || this.spent + cost.tokens > budget)) {
      // A budget with a window starts anew; what is larger than the whole budget never fits.
      if (this.#window.start === undefined || cost.tokens > budget || budget === 0) return NO_BUDGET;
      return { what: 'budget', waitMs: Math.max(1, this.#window.end - now) };
    }
    const requestWait = waitOf(this.requests, cost.requests, now);
    const tokenWait = waitOf(this.tokens, cost.tokens, now);
    if (requestWait > 0 || tokenWait > 0) {
      return tokenWait > requestWait
        ? { what: 'tokens', waitMs: tokenWait }
        : { what: 'requests', waitMs: requestWait };
    }
    const { concurrency } = this.limit ?? {};
    return concurrency !== undefined && this.running >= concurrency ? NO_ROOM : undefined;
  }

  /** How much is used of each resource that is limited. */
  *uses(now: number): Generator<LimitUse> {
    const { concurrency, tokenBudget } = this.limit ?? {};
    if (concurrency !== undefined) yield { what: 'concurrency', used: this.running, of: concurrency };
    if (tokenBudget !== undefined) yield { what: 'budget', used: this.spent, of: tokenBudget };
    for (const what of ['requests', 'tokens'] as const) {
      const bucket = this[what];
      if (!bucket) continue;
      bucket.refill(now);
      yield { what, used: Math.max(0, bucket.burst - bucket.level), of: bucket.burst };
    }
  }

  take(cost: Cost, now: number): void {
    this.requests?.refill(now);
    this.requests?.take(cost.requests);
    this.tokens?.refill(now);
    this.tokens?.take(cost.tokens);
    this.hold(cost);
  }

  /** Counts a job whose cost an earlier brain has taken from the buckets, or that came before them. */
  hold(cost: Cost): void {
    this.running++;
    this.spent += cost.tokens;
    this.#held += cost.tokens;
  }

  /** Ends a reservation and replaces its estimate by the tokens really used. */
  settle(hold: Hold, realTokens: number, now: number): void {
    this.#roll(now);
    this.#end(hold);
    const more = realTokens - hold.tokens;
    this.spent = Math.max(0, this.spent + more);
    if (more <= 0) return giveBack(this.tokens, -more, hold, now);
    this.tokens?.refill(now);
    this.tokens?.take(more);
  }

  /** Ends a reservation whose job never ran. */
  release(hold: Hold, now: number): void {
    this.settle(hold, 0, now);
    giveBack(this.requests, hold.requests, hold, now);
  }

  /** Whether a new account would be in the same state, so that this one can be dropped. */
  isIdle(now: number): boolean {
    if (this.running > 0) return false;
    this.#roll(now);
    if (this.spent > 0 && this.limit?.tokenBudget !== undefined) return false;
    this.requests?.refill(now);
    this.tokens?.refill(now);
    return this.requests?.isFull() !== false && this.tokens?.isFull() !== false;
  }

  #end(cost: Cost): void {
    this.running = Math.max(0, this.running - 1);
    this.#held = Math.max(0, this.#held - cost.tokens);
  }
}

function waitOf(bucket: Bucket | undefined, amount: number, now: number): number {
  if (!bucket) return 0;
  bucket.refill(now);
  bucket.clip();
  return bucket.waitMs(amount);
}

function giveBack(bucket: Bucket | undefined, amount: number, hold: Hold, now: number): void {
  if (!bucket || hold.at <= bucket.since) return;
  bucket.refill(now);
  bucket.giveBack(amount);
}

function updatedBucket(
  bucket: Bucket | undefined,
  rate: number | undefined,
  burst: number,
  now: number,
  since: number,
): Bucket | undefined {
  if (rate === undefined) return undefined;
  if (!bucket) return new Bucket(rate, burst, now, since);
  if (bucket.rate !== rate || bucket.burst !== burst) bucket.change(rate, burst, now);
  return bucket;
}
