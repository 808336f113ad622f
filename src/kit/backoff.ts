/** Exponential backoff with jitter; `random` is a number in [0, 1). */
export interface BackoffPolicy {
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
  /** The share of the delay that is random, 0 to 1. The delay is only ever shortened by it. */
  readonly jitter: number;
}

/** The wait after the n-th failure, n from 1. */
export function backoffMs(policy: BackoffPolicy, n: number, random: number): number {
  const full = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** Math.min(n - 1, 30));
  return Math.round(full * (1 - policy.jitter * random));
}
