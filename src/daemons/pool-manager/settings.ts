/** Resolves the configuration of a pool manager: fills in defaults and derives addresses. */
import { homedir, hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { isLoopbackHost, splitList } from '../../config/address.ts';
import { POOL_NAME } from '../../model/pool-wire.ts';
import { LOOPBACK_HOSTS } from '../../wire/access-gate.ts';
import { type EngineRule, POOL_DEFAULTS, type PoolConfig } from './config.ts';
import { ownWorkerCommand } from './engines.ts';
import type { WorkerTimes } from './worker-context.ts';

export interface PoolManagerSettings {
  readonly poolId: string;
  readonly data: string;
  readonly host: string;
  readonly port: number;
  /** The host name or address by which the brain reaches this machine. */
  readonly advertisedHost: string;
  /** Whether the manager listens on a loopback address only. */
  readonly isLocal: boolean;
  /** The accepted values of the Host header. */
  readonly gateHosts: readonly string[];
  readonly brains: readonly string[];
  readonly registerMs: number;
  readonly modelRoots: readonly string[];
  readonly hubCache: string | undefined;
  readonly engines: readonly EngineRule[];
  readonly workerCommand: readonly string[];
  readonly workerArgs: readonly string[];
  /** The address on which workers listen. */
  readonly workerHost: string;
  /** The hosts on which a worker may say that it is reached. */
  readonly workerHosts: readonly string[];
  readonly passEnv: readonly string[];
  readonly slots: number;
  readonly contextLength: number;
  readonly maxWorkers: number;
  readonly pollMs: number;
  readonly allowCpuFallback: boolean;
  readonly times: WorkerTimes;
}

/** Whether a host means all addresses of the machine, so that it cannot be called. */
export const isWildcardHost = (host: string): boolean => host === '0.0.0.0' || host === '::';

/** The host as it is written in a URL: an IPv6 address gets brackets. */
export const urlHost = (host: string): string => (host.includes(':') ? `[${host}]` : host);

/** The default name of the pool: the machine's host name, because two pools must not have the same name. */
function defaultPoolId(): string {
  const name = hostname()
    .replace(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 64);
  return new RegExp(POOL_NAME).test(name) ? name : POOL_DEFAULTS.pool_id;
}

export function settingsOf(
  config: PoolConfig,
  environment: Readonly<Record<string, string | undefined>>,
): PoolManagerSettings {
  const host = config.host ?? POOL_DEFAULTS.host;
  const advertisedHost = config.advertise ?? (isWildcardHost(host) ? '127.0.0.1' : host);
  const workerHost = config.worker_host ?? advertisedHost;
  return {
    poolId: config.pool_id ?? defaultPoolId(),
    data: resolve(config.data ?? 'data/pool'),
    host,
    port: config.port ?? POOL_DEFAULTS.port,
    advertisedHost,
    isLocal: isLoopbackHost(host),
    gateHosts: [...LOOPBACK_HOSTS, urlHost(host), urlHost(advertisedHost), ...(config.allowed_hosts ?? [])],
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
      ...[workerHost, advertisedHost, ...(config.allowed_worker_hosts ?? [])].map(urlHost),
    ],
    passEnv: config.pass_env ?? [],
    slots: config.slots ?? POOL_DEFAULTS.slots,
    contextLength: config.context_length ?? POOL_DEFAULTS.context_length,
    maxWorkers: config.max_workers ?? POOL_DEFAULTS.max_workers,
    pollMs: config.device_poll_ms ?? POOL_DEFAULTS.device_poll_ms,
    allowCpuFallback: config.allow_cpu_fallback ?? POOL_DEFAULTS.allow_cpu_fallback,
    times: {
      startTimeoutMs: config.start_timeout_ms ?? POOL_DEFAULTS.start_timeout_ms,
      graceMs: config.stop_grace_ms ?? POOL_DEFAULTS.stop_grace_ms,
      healthIntervalMs: config.health_interval_ms ?? POOL_DEFAULTS.health_interval_ms,
      healthTimeoutMs: config.health_timeout_ms ?? POOL_DEFAULTS.health_timeout_ms,
      healthMisses: config.health_misses ?? POOL_DEFAULTS.health_misses,
    },
  };
}

/** The cache folder: configured, or where the Hugging Face tools have it. */
function hubCacheOf(config: PoolConfig, environment: Readonly<Record<string, string | undefined>>): string {
  const home = environment['HF_HOME'] || join(homedir(), '.cache', 'huggingface');
  return resolve(config.hf_cache ?? environment['HF_HUB_CACHE'] ?? join(home, 'hub'));
}

/** Whether a worker may report this URI: plain HTTP, an allowed host, no path. */
export function allowsUri(uri: string, hosts: readonly string[]): boolean {
  const url = URL.parse(uri);
  if (url === null || url.protocol !== 'http:' || url.username !== '' || url.password !== '') return false;
  return url.pathname === '/' && url.search === '' && url.hash === '' && hosts.includes(url.hostname);
}
