/**
 * Bounds the retries of one caller, or of one route, to a share of their first starts, so that the bad hour of a provider
 * is not multiplied by everybody's retries. Retries over the share wait, in order.
 *
 * R1  Retries are at most the larger of MIN_RETRIES and `share` times the first starts.
 * R2  No retry waits for ever: one goes after RETRY_EVERY_MS without another, and counts against the share.
 */
import { Gate } from './gate.ts';

/** Retries that a caller with few starts always has. */
const MIN_RETRIES = 10;
const RETRY_EVERY_MS = 10_000;
/** Both counts are halved at so many starts: a calm month does not save up retries for a bad hour. */
const MAX_STARTS = 1000;

export class RetryGate extends Gate {
  readonly #share: number;
  #starts = 0;
  #retries = 0;
  #lastRetryAt = Number.NEGATIVE_INFINITY;
  /** A retry over the share that R2 allows. */
  #extra = 0;

  constructor(name: string, share: number, now: number) {
    super(name, { scope: name }, now);
    this.#share = share;
  }

  override get limitsStarts(): boolean {
    return true;
  }

  override get room(): number {
    return Math.max(0, Math.floor(this.#left)) + this.#extra;
  }

  get #left(): number {
    return Math.max(MIN_RETRIES, this.#share * this.#starts) - this.#retries;
  }

  started(): void {
    if (++this.#starts < MAX_STARTS) return;
    this.#starts /= 2;
    this.#retries /= 2;
  }

  retried(now: number): void {
    this.#retries++;
    this.#extra = 0;
    this.#lastRetryAt = now;
  }

  override moveInstants(byMs: number): void {
    this.#lastRetryAt += byMs;
  }

  /** The provider has done nothing for the attempt. */
  undo(isRetry: boolean): void {
    if (isRetry) this.#retries = Math.max(0, this.#retries - 1);
    else this.#starts = Math.max(0, this.#starts - 1);
  }

  override get rollsAt(): number {
    return this.#lastRetryAt + RETRY_EVERY_MS;
  }

  /** Allows a retry after a while without one. */
  override roll(now: number): boolean {
    if (now < this.rollsAt || this.#extra > 0 || this.#left >= 1) return false;
    this.#extra = 1;
    return true;
  }

  override get isIdle(): boolean {
    return this.groups === 0 && this.#starts === 0 && this.#retries === 0;
  }
}
