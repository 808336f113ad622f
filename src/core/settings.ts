/** The settings that the core reads. config/ resolves them once; of some, operators set others at run time. */
import type { BackoffPolicy } from '../kit/backoff.ts';
import type { GovernancePolicy } from '../model/governance.ts';
import type { LimitSpec } from '../model/limit-records.ts';
import { type GateSettings, gatesInForce, type PolicyValues } from '../model/policy.ts';
import type { PriceSpec } from '../model/price.ts';

/** A device whose memory leases are granted from. */
export interface LeaseDevice {
  readonly index: number;
  readonly memoryMb: number;
}

export interface StateSettings {
  /** How long a kill may stay unconfirmed before its job is ended, or becomes stale, without the confirmation. */
  readonly cancelDeadlineMs: number;
  readonly failureCacheSize: number;
  /** What may be done in which mode; DEFAULT_POLICY by default. */
  readonly governance?: GovernancePolicy | undefined;
}

export interface LanePolicy {
  /** Batch work that has waited this long gets at least one pick in `batchShare`. */
  readonly batchMaxWaitMs: number;
  readonly batchShare: number;
}

/** How conversations stay with the backends that have heard them. */
export interface StickyPolicy {
  /** Whether the backend that has heard a conversation is preferred. */
  readonly enabled: boolean;
  /** What it costs to move a conversation from a backend with a thread of it, in mean service times. */
  readonly price: number;
}

/** When a backend is paused whose provider fails. */
export interface BreakerPolicy {
  /** Failures in a row that pause a backend; 0 means that nothing does. */
  readonly failures: number;
  /** The first pause; each further one is twice as long, up to `maxPauseMs`. */
  readonly pauseMs: number;
  readonly maxPauseMs: number;
}

/** Every setting of the engine. */
export interface EngineSettings extends StateSettings, LanePolicy {
  /** The devices that leases are granted on. */
  readonly devices: readonly LeaseDevice[];
  readonly queueCapacity: number;
  /** The most jobs that may wait without an attempt, for others, for an instant or for an answer. */
  readonly maxWaiting: number;
  readonly queueBytes: number;
  readonly queuePolicy: 'reject' | 'drop-lru';
  readonly maxPayloadBytes: number;
  readonly maxTries: number;
  readonly backoff: BackoffPolicy;
  /** Retries on providers are at most this share of the first starts there. */
  readonly retryShare: number;
  readonly breaker: BreakerPolicy;
  readonly sticky: StickyPolicy;
  readonly failureCacheTtlMs: number;
  /** How long a backend that has answered `busy` without a `retryAfterMs` is offered nothing. */
  readonly busyPauseMs: number;
  readonly pools: PoolSettings;
  /** The gates of admission; none by default. */
  readonly gates?: GateSettings | undefined;
  readonly limits: readonly LimitSpec[];
  readonly prices: readonly PriceSpec[];
}

export type PlacementAlgorithm = 'least-loaded' | 'most-vram-free' | 'round-robin' | 'multi-objective';

/** How workers are chosen, started and stopped. */
export interface PoolSettings {
  readonly placement: PlacementAlgorithm;
  /** Which idle worker is evicted first when its memory is needed; `manual`: only operators evict. */
  readonly eviction: 'lru' | 'lfu' | 'manual';
  /** The region of the brain: pools of the same region are preferred. */
  readonly region: string | undefined;
  /** The timeout of a try on a worker, for jobs without a `timeout_ms` of their own. */
  readonly workerTimeoutMs: number;
  readonly startTimeoutMs: number;
  /** Failed starts in a row after which the jobs that wait for the model fail. */
  readonly startTries: number;
  /** How long no start of that model is tried after that. */
  readonly startCooldownMs: number;
  /** A worker that has been idle for this long is stopped. */
  readonly idleUnloadMs: number;
  /**
   * A worker in use is not evicted within this time of its start for a model that was itself evicted within this time:
   * otherwise two models would keep evicting each other.
   */
  readonly minResidentMs: number;
  /** How long a job waits for a model without a worker before a busy worker of another model is drained for it. */
  readonly drainAfterMs: number;
  readonly maxWorkersPerModel: number;
  /** So many workers a worker pool has at least, also when it has had no work for its time to be held. */
  readonly minWarmWorkersPerPool: number;
  /** Nothing is started while so many workers are there. */
  readonly maxTotalWorkers: number;
  /** Another worker of a model is started when the expected wait of its jobs is longer than this. */
  readonly scaleUpWaitMs: number;
  readonly prewarm: boolean;
  /** `block` refuses jobs for a model whose file failed its verification; `warn` only reports it. */
  readonly verifyPolicy: 'warn' | 'block';
  /** The token budget of sessions that have none of their own. */
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
  minWarmWorkersPerPool: 0,
  maxTotalWorkers: 100_000,
  scaleUpWaitMs: 10_000,
  prewarm: true,
  verifyPolicy: 'warn',
  sessionTokenBudget: undefined,
};

/** The settings with the values that operators have set in place of those of the configuration. */
export function settingsWith(configured: EngineSettings, values: PolicyValues): EngineSettings {
  const { gates, idleUnloadMs, maxWorkersPerModel, minWarmWorkersPerPool, maxTotalWorkers, scaleUpWaitMs } =
    values;
  const { pools } = configured;
  return {
    ...configured,
    gates: gates ? gatesInForce(gates, configured.gates) : configured.gates,
    pools: {
      ...pools,
      idleUnloadMs: idleUnloadMs ?? pools.idleUnloadMs,
      maxWorkersPerModel: maxWorkersPerModel ?? pools.maxWorkersPerModel,
      minWarmWorkersPerPool: minWarmWorkersPerPool ?? pools.minWarmWorkersPerPool,
      maxTotalWorkers: maxTotalWorkers ?? pools.maxTotalWorkers,
      scaleUpWaitMs: scaleUpWaitMs ?? pools.scaleUpWaitMs,
    },
  };
}
