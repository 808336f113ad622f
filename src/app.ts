/** Puts the parts together: the only place that knows all of them. */

import { resolve } from 'node:path';
import { FunctionBackend, type FunctionBackendOptions } from './backends/local/functions.ts';
import { loadConfig } from './config/load.ts';
import type { ResolvedConfig } from './config/resolve.ts';
import type { Backend } from './core/ports/backend.ts';
import type { Store, Term } from './core/ports.ts';
import type { PoolSettings } from './core/settings.ts';
import type { Env } from './kit/env/env.ts';
import { realEnv } from './kit/env/real.ts';
import { createLogger, type Logger } from './kit/logger.ts';
import { OrchdError } from './model/errors.ts';
import { Orchestrator, type RuntimeSettings } from './runtime/orchestrator.ts';
import { JournalStore } from './stores/journal/journal.ts';
import { ThreadBackground } from './stores/journal/thread.ts';
import { MariaDbLeadership } from './stores/mariadb/leadership.ts';
import { MariaDbStore } from './stores/mariadb/mariadb.ts';
import { connector } from './stores/mariadb/sql.ts';
import { MemoryStore } from './stores/memory/memory.ts';

export interface OrchestratorOptions {
  /** The data folder, or `memory` to keep nothing; the configured checkpoint_dir by default. */
  readonly data?: string;
  readonly backends: readonly (Backend | FunctionBackendOptions)[];
  /** Configuration as YAML text; the defaults hold for what it leaves out. */
  readonly config?: string;
  readonly logger?: Logger;
  readonly env?: Env;
}

const PURGE_INTERVAL_MS = 60_000;
const DRAIN_MS = 10_000;

/** Starts an orchestrator in this process and returns it once it has recovered. */
export async function createOrchestrator(options: OrchestratorOptions): Promise<Orchestrator> {
  const config = loadConfig(options.config === undefined ? {} : { text: options.config });
  const env = options.env ?? realEnv();
  const logger = options.logger ?? quietLogger(env, config);
  const folder = options.data ?? config.state.checkpointDir;
  const store = folder === 'memory' ? new MemoryStore(env.timers) : storeOf(env, config, folder, logger);
  const backends = options.backends.map((backend) =>
    'info' in backend ? backend : new FunctionBackend(env, backend),
  );
  const orchestrator = new Orchestrator({ env, store, backends, settings: runtimeSettings(config), logger });
  try {
    await orchestrator.start();
  } catch (error) {
    await orchestrator.stop().catch(() => undefined);
    throw error;
  }
  return orchestrator;
}

/** The configured store; the journal lies in the data folder. With a term it is the store of a node that leads. */
export function storeOf(
  env: Env,
  config: ResolvedConfig,
  folder: string,
  logger?: Logger,
  term?: Term,
): Store {
  const { kind, unsafe } = config.store;
  if (kind === 'journal') return journalStore(env, config, folder, logger);
  const { auditMs, auditBytes } = config.retention;
  return new MariaDbStore(env, {
    connect: connector(urlOf(config)),
    unsafe,
    auditMs,
    auditBytes,
    ...(term && { term }),
  });
}

/** What the nodes of a cluster elect their leader by. */
export const leadershipOf = (env: Env, config: ResolvedConfig): MariaDbLeadership =>
  new MariaDbLeadership(env, {
    url: urlOf(config),
    unsafe: config.store.unsafe,
    ttlMs: config.cluster.leaseMs,
  });

function urlOf({ store }: ResolvedConfig): string {
  const url = store.url.reveal();
  if (url !== '') return url;
  throw new OrchdError('CONFIG_INVALID', 'the store "mariadb" needs its address: set mariadb.url');
}

function journalStore(env: Env, config: ResolvedConfig, folder: string, logger?: Logger): Store {
  return new JournalStore(env, {
    folder: resolve(folder),
    checkpointIntervalMs: config.state.checkpointIntervalMs,
    historyMs: config.retention.historyMs,
    auditMs: config.retention.auditMs,
    auditBytes: config.retention.auditBytes,
    background: (paths) => new ThreadBackground(paths),
    onWarning: (message) => logger?.warn('the data folder needs attention', { reason: message }),
  });
}

export function runtimeSettings(config: ResolvedConfig): RuntimeSettings {
  const { queue, retry, scheduler, recovery, retention, leases } = config;
  return {
    engine: {
      devices: leases.gpus,
      queueCapacity: queue.capacity,
      queueBytes: queue.capacityBytes,
      queuePolicy: queue.policy,
      maxPayloadBytes: queue.maxPayloadBytes,
      batchMaxWaitMs: queue.batchMaxWaitMs,
      batchShare: queue.batchShare,
      maxTries: retry.maxTries,
      backoff: retry,
      failureCacheTtlMs: scheduler.failureCacheTtlMs,
      failureCacheSize: scheduler.failureCacheSize,
      cancelDeadlineMs: scheduler.cancelDeadlineMs,
      busyPauseMs: scheduler.jitPollIntervalMs,
      pools: poolSettings(config),
      limits: config.limits,
    },
    holderLostMs: recovery.holderLostMs,
    sweepIntervalMs: recovery.sweepIntervalMs,
    historyMs: retention.historyMs,
    purgeIntervalMs: PURGE_INTERVAL_MS,
    drainMs: DRAIN_MS,
  };
}

const poolSettings = ({ pools, pool, placement }: ResolvedConfig): PoolSettings => ({
  ...pools,
  placement: placement.algorithm,
  eviction: placement.evictionPolicy,
  workerTimeoutMs: pool.workerTimeoutMs,
});

/** A library says nothing on its host's standard output: only what goes wrong, on standard error. */
function quietLogger(env: Env, config: ResolvedConfig): Logger {
  return createLogger({
    write: (line) => {
      process.stderr.write(line);
    },
    now: () => env.clock.now(),
    level: config.log.level === 'info' ? 'warn' : config.log.level,
  });
}
