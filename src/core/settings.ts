import type { BackoffPolicy } from '../kit/backoff.ts';
import type { LimitSpec } from '../model/records.ts';

/** A device whose memory is lent out by leases. */
export interface LeaseDevice {
  readonly index: number;
  readonly memoryMb: number;
}

export interface StateSettings {
  /** How long a kill may stay unconfirmed before the job goes on without it. */
  readonly cancelDeadlineMs: number;
  readonly failureCacheSize: number;
}

export interface LanePolicy {
  /** Batch work that has waited this long gets at least one pick in `batchShare`. */
  readonly batchMaxWaitMs: number;
  readonly batchShare: number;
}

/** What the engine needs to know of the configuration. */
export interface EngineSettings extends StateSettings, LanePolicy {
  /** What leases are given out of. */
  readonly devices: readonly LeaseDevice[];
  readonly queueCapacity: number;
  readonly queueBytes: number;
  readonly queuePolicy: 'reject' | 'drop-lru';
  readonly maxPayloadBytes: number;
  readonly maxTries: number;
  readonly backoff: BackoffPolicy;
  readonly failureCacheTtlMs: number;
  /** How long a backend that said busy, without a time of its own, gets nothing. */
  readonly busyPauseMs: number;
  readonly pools: PoolSettings;
  readonly limits: readonly LimitSpec[];
}

export type PlacementAlgorithm = 'least-loaded' | 'most-vram-free' | 'round-robin' | 'multi-objective';

/** How workers are chosen, started and let go. */
export interface PoolSettings {
  readonly placement: PlacementAlgorithm;
  /** Which idle worker goes when its memory is needed; `manual`: none, unless an operator says so. */
  readonly eviction: 'lru' | 'lfu' | 'manual';
  /** Where the brain is: the near pools come first. */
  readonly region: string | undefined;
  /** How long a try on a worker may run, where the job does not say so itself. */
  readonly workerTimeoutMs: number;
  readonly startTimeoutMs: number;
  /** Starts in a row that may fail before those who wait are told so. */
  readonly startTries: number;
  /** How long no further start of that model is tried then. */
  readonly startCooldownMs: number;
  /** A worker without work goes after this long. */
  readonly idleUnloadMs: number;
  /**
   * A worker that is in use is not evicted sooner after its start for a model that was itself evicted so lately:
   * two models must not chase each other.
   */
  readonly minResidentMs: number;
  /** How long a model without any worker waits before a busy one of another model is drained for it. */
  readonly drainAfterMs: number;
  readonly maxWorkersPerModel: number;
  /** Another worker of a model is started when those who wait would wait longer than this. */
  readonly scaleUpWaitMs: number;
  readonly prewarm: boolean;
  /** Whether a model whose file is not the registered one is refused, or only reported. */
  readonly verifyPolicy: 'warn' | 'block';
  /** Tokens that a session may use, where it has no budget of its own. */
  readonly sessionTokenBudget: number | undefined;
}

export const POOL_DEFAULTS: PoolSettings = {
  placement: 'least-loaded',
  eviction: 'lru',
  region: undefined,
  workerTimeoutMs: 300_000,
  startTimeoutMs: 60_000,
  startTries: 2,
  startCooldownMs: 30_000,
  idleUnloadMs: 600_000,
  minResidentMs: 10_000,
  drainAfterMs: 30_000,
  maxWorkersPerModel: 64,
  scaleUpWaitMs: 10_000,
  prewarm: true,
  verifyPolicy: 'warn',
  sessionTokenBudget: undefined,
};
