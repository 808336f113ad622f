/** From the configuration to the settings of a brain. */
import type { ResolvedConfig } from '../config/resolve.ts';
import type { PoolSettings } from '../core/settings.ts';
import { gatesInForce } from '../model/policy.ts';
import type { RuntimeSettings } from '../runtime/orchestrator.ts';

const PURGE_INTERVAL_MS = 60_000;
const DRAIN_MS = 10_000;

export function runtimeSettings(config: ResolvedConfig): RuntimeSettings {
  const { queue, retry, scheduler, recovery, retention, leases } = config;
  return {
    engine: {
      devices: leases.gpus,
      queueCapacity: queue.capacity,
      maxWaiting: queue.maxWaiting,
      queueBytes: queue.capacityBytes,
      queuePolicy: queue.policy,
      maxPayloadBytes: queue.maxPayloadBytes,
      batchMaxWaitMs: queue.batchMaxWaitMs,
      batchShare: queue.batchShare,
      maxTries: retry.maxTries,
      backoff: retry,
      retryShare: retry.share,
      breaker: scheduler.breaker,
      sticky: scheduler.sticky,
      failureCacheTtlMs: scheduler.failureCacheTtlMs,
      failureCacheSize: scheduler.failureCacheSize,
      cancelDeadlineMs: scheduler.cancelDeadlineMs,
      busyPauseMs: scheduler.jitPollIntervalMs,
      pools: poolSettings(config),
      governance: config.governance.policy,
      limits: config.limits,
      gates: gatesInForce(config.gates),
      prices: config.money.prices,
    },
    holderLostMs: recovery.holderLostMs,
    sweepIntervalMs: recovery.sweepIntervalMs,
    reconcilesAtStart: recovery.orphanReconciliation,
    historyMs: retention.historyMs,
    usageMs: retention.usageMs,
    purgeIntervalMs: PURGE_INTERVAL_MS,
    sessions: config.sessions,
    drainMs: DRAIN_MS,
  };
}

const poolSettings = ({ pools, pool, placement }: ResolvedConfig): PoolSettings => ({
  ...pools,
  placement: placement.algorithm,
  eviction: placement.evictionPolicy,
  workerTimeoutMs: pool.workerTimeoutMs,
});
