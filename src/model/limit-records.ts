/** The records of limits: what is limited, and what was used. */

/** Limits set at run time; they replace all configured ones. */
export interface LimitsRecord {
  readonly v: 1;
  readonly by: string;
  readonly at: number;
  readonly limits: readonly LimitSpec[];
}

/** The limits of one scope; an absent number is not limited. */
export interface LimitSpec {
  /**
   * `global`, `tenant:<t>`, `agent:<t>/<agent>`, `token:<name>`, `session:<t>/<id>`, `model:<name>`,
   * `pool:<name>`, `seat:<backend>`, `route:<name>`, `root:<t>/<job>` (a job and all below it). With `*` as its last part (`agent:*`, `agent:<t>/*`) it applies to each matching scope separately. Of
   * several limits that match a scope, the most specific one applies.
   */
  readonly scope: string;
  readonly requestsPerSec?: number | undefined;
  readonly tokensPerSec?: number | undefined;
  /** By default one second's worth of `requestsPerSec`, and at least one request. */
  readonly burstRequests?: number | undefined;
  /** By default one second's worth of `tokensPerSec`. */
  readonly burstTokens?: number | undefined;
  /** Maximum number of jobs that are admitted and have not ended. */
  readonly concurrency?: number | undefined;
  /** Maximum number of attempts that are open at once: jobs over it wait, in order. 0 is a pause. */
  readonly running?: number | undefined;
  /** Maximum number of attempts that start in a minute; only for the scopes of a mode of governance. */
  readonly perMinute?: number | undefined;
  /** Maximum number of tokens in a window. */
  readonly tokenBudget?: number | undefined;
  /** Maximum cost in a window, in micro-units. */
  readonly costBudget?: number | undefined;
  /** When the budgets start anew; `total` by default: never. */
  readonly window?: LimitWindow | undefined;
  /** The IANA name of the time zone of `window`; UTC by default. */
  readonly timeZone?: string | undefined;
  /** Whether `costBudget` is never exceeded; otherwise it only warns. */
  readonly hard?: boolean | undefined;
}

export type LimitWindow = 'hour' | 'day' | 'week' | 'month' | 'total';

/** What a scope has used of its limits, so that a later brain goes on where this one was. */
export interface SpentRecord {
  readonly v: 1;
  /** The tokens of ended jobs, in the current window of the budget. */
  readonly tokens: number;
  /** When it was written: buckets have filled since. */
  readonly at: number;
  /** The cost of closed attempts in the current window, in micro-units. */
  readonly cost?: number | undefined;
  /** The first instant of the current window; undefined for a budget in total. */
  readonly window?: number | undefined;
  /** The highest share of the cost budget that was reached and warned about, in percent. */
  readonly warned?: number | undefined;
  /** Only for a seat: its provider has billed more than its bound, and it gets no job until an operator resumes it. */
  readonly paused?: SeatPause | undefined;
  /** Of a kind of jobs that a mode of governance limits: the attempts that have started in the minute that ends at `until`. */
  readonly minute?: { readonly started: number; readonly until: number } | undefined;
  /** The levels of the buckets at `at`, negative while in debt; undefined without a bucket. */
  readonly requestLevel?: number | undefined;
  readonly tokenLevel?: number | undefined;
}

export interface SeatPause {
  readonly at: number;
  /** The attempt that was billed too much. */
  readonly token: string;
  /** By how much, in micro-units. */
  readonly excess: number;
}
