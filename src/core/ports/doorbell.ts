/**
 * The port to the place where consumers hear that a job waits for them. What is published there is a hint: a consumer may
 * begin only after it has claimed the attempt from the brain, so entries may be lost, repeated or late without harm.
 */

/** An attempt that a consumer of the pool may claim. */
export interface JobHint {
  readonly pool: string;
  readonly token: string;
  readonly jobId: string;
  readonly type: string;
  /** The payload, where it is at hand and small; consumers get it with the claim in any case. */
  readonly payloadText?: string | undefined;
}

/** What should be published for one pool, as the records say. */
export interface PoolHints {
  readonly pool: string;
  /** Attempts that nobody has claimed yet. */
  readonly waiting: readonly JobHint[];
  /** The tokens of attempts that a consumer holds: their entries stay until they have ended. */
  readonly held: ReadonlySet<string>;
}

/** Where the consumers of a pool listen. */
export interface DoorbellPlace {
  readonly key: string;
  readonly group: string;
}

/** Calls return at once, and never throw: what could not be done is repeated by `sweep`. */
export interface Doorbell {
  placeOf(pool: string): DoorbellPlace;
  /** An attempt waits for a consumer. Repeated calls with the same token publish it once. */
  publish(hint: JobHint): void;
  /** The attempt is over, or was taken back before anybody claimed it; its change is durable. */
  settled(pool: string, token: string): void;
  /** Publishes what is missing, and removes entries of attempts that are over. `pools`: those with consumers now. */
  sweep(pools: readonly PoolHints[]): void;
}
