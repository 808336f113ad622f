/** The configuration of a pool manager with everything that was left out. */
import { homedir, hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { isLoopbackHost, splitList } from '../../config/address.ts';
import { POOL_NAME } from '../../model/pool-wire.ts';
import { LOOPBACK_HOSTS } from '../../wire/gate.ts';
import { type EngineRule, POOL_DEFAULTS, type PoolConfig } from './config.ts';
import { ownWorkerCommand } from './engines.ts';
import type { WorkerTimes } from './worker-parts.ts';

export interface PoolSettings {
  readonly poolId: string;
  readonly data: string;
  readonly host: string;
  readonly port: number;
  /** By which others reach this machine. */
  readonly reachedAt: string;
  readonly isLocal: boolean;
  readonly gateHosts: readonly string[];
  readonly brains: readonly string[];
  readonly registerMs: number;
  readonly modelRoots: readonly string[];
  readonly hubCache: string | undefined;
  readonly engines: readonly EngineRule[];
  readonly workerCommand: readonly string[];
  readonly workerArgs: readonly string[];
  readonly workerHost: string;
  readonly workerHosts: readonly string[];
  readonly passEnv: readonly string[];
  readonly slots: number;
  readonly contextLength: number;
  readonly maxWorkers: number;
  readonly pollMs: number;
  readonly times: WorkerTimes;
}

/** Not an address, but all of them. */
export const isEverywhere = (host: string): boolean => host === '0.0.0.0' || host === '::';

/** An IPv6 address stands in brackets. */
export const inUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host);

/** Two machines must not have one name: whatever can be used of its own. */
function ownName(): string {
  const name = hostname()
    .replace(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 64);
  return new RegExp(POOL_NAME).test(name) ? name : POOL_DEFAULTS.pool_id;
}

export function settingsOf(
  config: PoolConfig,
  environment: Readonly<Record<string, string | undefined>>,
): PoolSettings {
  const host = config.host ?? POOL_DEFAULTS.host;
  const reachedAt = config.advertise ?? (isEverywhere(host) ? '127.0.0.1' : host);
  const workerHost = config.worker_host ?? reachedAt;
  return {
    poolId: config.pool_id ?? ownName(),
    data: resolve(config.data ?? 'data/pool'),
    host,
    port: config.port ?? POOL_DEFAULTS.port,
    reachedAt,
    isLocal: isLoopbackHost(host),
    gateHosts: [...LOOPBACK_HOSTS, inUrl(host), inUrl(reachedAt), ...(config.allowed_hosts ?? [])],
    brains: splitList(config.brain ?? []),
    registerMs: config.register_ms ?? POOL_DEFAULTS.register_ms,
    modelRoots: (config.models ?? []).map((path) => resolve(path)),
    hubCache: hubCacheOf(config, environment),
    engines: config.engines ?? [],
    workerCommand: config.worker_command ?? ownWorkerCommand(),
    workerArgs: config.worker_args ?? [],
    workerHost,
    workerHosts: [
      ...LOOPBACK_HOSTS,
      ...[workerHost, reachedAt, ...(config.allowed_worker_hosts ?? [])].map(inUrl),
    ],
    passEnv: config.pass_env ?? [],
    slots: config.slots ?? POOL_DEFAULTS.slots,
    contextLength: config.context_length ?? POOL_DEFAULTS.context_length,
    maxWorkers: config.max_workers ?? POOL_DEFAULTS.max_workers,
    pollMs: config.device_poll_ms ?? POOL_DEFAULTS.device_poll_ms,
    times: {
      startTimeoutMs: config.start_timeout_ms ?? POOL_DEFAULTS.start_timeout_ms,
      graceMs: config.stop_grace_ms ?? POOL_DEFAULTS.stop_grace_ms,
      healthIntervalMs: config.health_interval_ms ?? POOL_DEFAULTS.health_interval_ms,
      healthTimeoutMs: config.health_timeout_ms ?? POOL_DEFAULTS.health_timeout_ms,
      healthMisses: config.health_misses ?? POOL_DEFAULTS.health_misses,
    },
  };
}

/** Where the tools of the hub keep it. */
function hubCacheOf(config: PoolConfig, environment: Readonly<Record<string, string | undefined>>): string {
  const home = environment['HF_HOME'] || join(homedir(), '.cache', 'huggingface');
  return resolve(config.hf_cache ?? environment['HF_HUB_CACHE'] ?? join(home, 'hub'));
}

/** Whether a worker may say that it is reached there: by HTTP, at the top of a server of an allowed host. */
export function allowsUri(uri: string, hosts: readonly string[]): boolean {
  const url = URL.parse(uri);
  if (url === null || url.protocol !== 'http:' || url.username !== '' || url.password !== '') return false;
  return url.pathname === '/' && url.search === '' && url.hash === '' && hosts.includes(url.hostname);
}
