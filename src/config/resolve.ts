/** Phase 5: the configuration as the code uses it: camelCase, units in the names, grouped by who reads it. */

import { Secret } from '../kit/secret.ts';
import { parseBindAddress, splitList } from './address.ts';
import { gatesOf } from './gates.ts';
import { governanceOf } from './governance.ts';
import { limitSpecs } from './limits.ts';
import { priceSpecs } from './prices.ts';
import { redisOf } from './redis.ts';
import type { RawConfig } from './schema.ts';

export type ResolvedConfig = DeepReadonly<ReturnType<typeof group>>;

type DeepReadonly<T> = T extends Secret
  ? T
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T;

/** `isSet`: whether the file or the environment has set the key with this path `a.b.c`. */
export const resolveConfig = (
  raw: RawConfig,
  isSet: (path: string) => boolean = () => false,
): ResolvedConfig => deepFreeze(group(raw, isSet));

const toMs = (seconds: number): number => Math.round(seconds * 1000);

// Paths are appended to it, and two slashes in a row are another path to many servers.
const baseUrl = (url: string): string => url.replace(/\/+$/, '');

function group(raw: RawConfig, isSet: (path: string) => boolean) {
  const { store, mariadb, cluster, orchestrator, backends, pool, gateway, log } = raw;
  const { state, queue, retry, recovery, retention } = orchestrator;
  return {
    store: { kind: store, url: new Secret(mariadb.url), unsafe: mariadb.unsafe },
    redis: redisOf(raw),
    cluster: {
      node: cluster.node,
      address: baseUrl(cluster.address),
      leaseMs: cluster.lease_ms,
      holdMs: cluster.hold_ms,
    },
    server: serverOf(raw),
    backends,
    state: {
      checkpointDir: state.checkpoint_dir,
      checkpointIntervalMs: toMs(state.checkpoint_interval),
      catalogPath: orchestrator.catalog_path,
    },
    queue: {
      capacity: orchestrator.queue_capacity,
      policy: orchestrator.queue_policy,
      capacityBytes: queue.capacity_bytes,
      maxWaiting: queue.max_waiting,
      maxPayloadBytes: queue.max_payload_bytes,
      batchMaxWaitMs: toMs(queue.batch_max_wait),
      batchShare: queue.batch_share,
    },
    retry: {
      maxTries: retry.max_tries,
      baseDelayMs: retry.base_delay_ms,
      maxDelayMs: retry.max_delay_ms,
      jitter: retry.jitter,
      share: retry.share,
    },
    scheduler: schedulerOf(orchestrator),
    placement: {
      algorithm: orchestrator.placement_algorithm,
      evictionPolicy: orchestrator.eviction_policy,
    },
    recovery: {
      orphanReconciliation: recovery.orphan_reconciliation,
      holderLostMs: recovery.holder_lost_ms,
      sweepIntervalMs: recovery.sweep_interval_ms,
    },
    retention: {
      historyMs: toMs(retention.history_sec),
      auditMs: toMs(retention.audit_sec),
      auditBytes: retention.audit_bytes,
      usageMs: toMs(retention.usage_sec),
    },
    sessions: sessionsOf(raw),
    leases: leasesOf(raw),
    gateway: {
      ...parseBindAddress(gateway.bind_addr)!,
      allowedHosts: splitList(gateway.allowed_hosts).map((name) => name.toLowerCase()),
      seats: gateway.seats,
    },
    pool: poolOf(pool, orchestrator, isSet('pool.url')),
    pools: poolsOf(raw),
    governance: governanceOf(raw.governance, raw.agents),
    ...listsOf(raw),
    limits: limitSpecs(raw.limits),
    gates: gatesOf(raw.gates),
    money: { currency: raw.currency, prices: priceSpecs(raw.prices) },
    log: { level: log.level },
  };
}

const leasesOf = ({ leases }: RawConfig) => ({
  ttlMs: toMs(leases.ttl_sec),
  gpus: leases.gpus.map(({ index, memory_mb }) => ({ index, memoryMb: memory_mb })),
});
/** The lists that are used as they are written. */
const listsOf = ({ agents, mcp, schedules, modules }: RawConfig) => ({ agents, mcp, schedules, modules });

const sessionsOf = ({ sessions, orchestrator: { retention } }: RawConfig) => ({
  archiveAfterMs: toMs(sessions.archive_after_sec),
  keepMs: retention.sessions_sec === 0 ? Number.POSITIVE_INFINITY : toMs(retention.sessions_sec),
});

const schedulerOf = ({ scheduler, sticky, cancel_deadline_ms }: RawConfig['orchestrator']) => ({
  jitPollIntervalMs: toMs(scheduler.jit_poll_interval),
  failureCacheTtlMs: toMs(scheduler.failure_cache_ttl),
  failureCacheSize: scheduler.failure_cache_size,
  cancelDeadlineMs: cancel_deadline_ms,
  breaker: {
    failures: scheduler.breaker_failures,
    pauseMs: scheduler.breaker_pause_ms,
    maxPauseMs: scheduler.breaker_max_pause_ms,
  },
  sticky: { enabled: sticky.enabled, price: sticky.price },
});

function serverOf({ server, orchestrator }: RawConfig) {
  const { host, port } = parseBindAddress(orchestrator.bind_addr)!;
  return {
    host,
    port,
    allowedHosts: splitList(server.allowed_hosts).map((name) => name.toLowerCase()),
    allowedOrigins: splitList(server.allowed_origins),
    maxConnections: server.max_connections,
    maxConnectionsPerAddress: server.max_connections_per_address,
    maxStreamsPerCaller: server.max_streams_per_caller,
    maxBodyBytesInFlight: server.max_body_bytes_in_flight,
    maxAnswerBytesInFlight: server.max_answer_bytes_in_flight,
    heartbeatMs: server.heartbeat_ms,
    disconnectGraceMs: server.disconnect_grace_ms,
  };
}

const poolOf = (
  { url, timeout }: RawConfig['pool'],
  orchestrator: RawConfig['orchestrator'],
  isUrlSet: boolean,
) => ({
  /** The gateway that somebody else runs; undefined unless it was set. */
  url: isUrlSet ? baseUrl(url) : undefined,
  timeoutMs: toMs(timeout),
  managerUrls: [...new Set(splitList(orchestrator.pool_managers).map(baseUrl))],
  workerTimeoutMs: toMs(orchestrator.worker_timeout_sec),
});

const poolsOf = ({ pools, sessions }: RawConfig) => ({
  token: new Secret(pools.token),
  region: pools.region === '' ? undefined : pools.region,
  allowedHosts: splitList(pools.allowed_hosts),
  allowedWorkerHosts: splitList(pools.allowed_worker_hosts),
  stateMaxAgeMs: pools.state_max_age_ms,
  startTimeoutMs: toMs(pools.start_timeout_sec),
  startTries: pools.start_tries,
  startCooldownMs: toMs(pools.start_cooldown_sec),
  idleUnloadMs: toMs(pools.idle_unload_sec),
  minResidentMs: toMs(pools.min_resident_sec),
  drainAfterMs: toMs(pools.drain_after_sec),
  maxWorkersPerModel: pools.max_workers_per_model,
  minWarmWorkersPerPool: pools.min_warm_workers_per_pool,
  maxTotalWorkers: pools.max_total_workers,
  scaleUpWaitMs: toMs(pools.scale_up_wait_sec),
  prewarm: pools.prewarm,
  verifyPolicy: pools.verify_policy,
  sessionTokenBudget: sessions.token_budget === 0 ? undefined : sessions.token_budget,
});

function deepFreeze<T>(value: T): DeepReadonly<T> {
  if (typeof value === 'object' && value !== null) {
    for (const child of Object.values(value)) deepFreeze(child);
    Object.freeze(value);
  }
  return value as DeepReadonly<T>;
}
