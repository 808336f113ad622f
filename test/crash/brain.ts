/** The brain that the crash tests run: the real runtime and store with limits so small that everything happens. */

import type { Backend } from '../../src/core/ports/backend.ts';
import { type EngineSettings, POOL_DEFAULTS } from '../../src/core/settings.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { Orchestrator, type RuntimeSettings } from '../../src/runtime/orchestrator.ts';
import { InlineBackground } from '../../src/stores/journal/background.ts';
import type { HistoryIndex } from '../../src/stores/journal/history/history.ts';
import { SqliteHistory } from '../../src/stores/journal/history/sqlite.ts';
import { JournalStore } from '../../src/stores/journal/journal.ts';
import type { LogLimits } from '../../src/stores/journal/log/writer.ts';
import { ThreadBackground } from '../../src/stores/journal/thread.ts';
import { MariaDbStore } from '../../src/stores/mariadb/mariadb.ts';
import type { Connect } from '../../src/stores/mariadb/sql.ts';
import type { Folders } from './folders.ts';
import { LedgerBackend, type LedgerOptions } from './ledger-backend.ts';

/** How fast things go: with steady time waits cost nothing, with real time they must be short. */
export type Pace = 'steady' | 'real';

interface Times {
  readonly backoffMs: number;
  readonly historyMs: number;
  readonly purgeIntervalMs: number;
  readonly sweepIntervalMs: number;
}

const TIMES: Record<Pace, Times> = {
  steady: { backoffMs: 1000, historyMs: 1_000_000, purgeIntervalMs: 2_000_000, sweepIntervalMs: 1_500_000 },
  real: { backoffMs: 20, historyMs: 600_000, purgeIntervalMs: 300_000, sweepIntervalMs: 250 },
};

export const backoffOf = (pace: Pace): number => TIMES[pace].backoffMs;
export const historyOf = (pace: Pace): number => TIMES[pace].historyMs;

function settings(pace: Pace, engine: Partial<EngineSettings>): RuntimeSettings {
  const { backoffMs, historyMs, purgeIntervalMs, sweepIntervalMs } = TIMES[pace];
  return {
    engine: {
      devices: [],
      queueCapacity: 10_000,
      maxWaiting: 1000,
      queueBytes: 2 ** 30,
      queuePolicy: 'reject',
      maxPayloadBytes: 2 ** 20,
      batchMaxWaitMs: 300_000,
      batchShare: 10,
      maxTries: 3,
      backoff: { baseDelayMs: backoffMs, maxDelayMs: 8 * backoffMs, jitter: 0 },
      failureCacheTtlMs: 100_000_000,
      failureCacheSize: 100,
      cancelDeadlineMs: 5000,
      busyPauseMs: 10,
      pools: POOL_DEFAULTS,
      limits: [],
      prices: [],
      retryShare: 0.2,
      breaker: { failures: 5, pauseMs: 5000, maxPauseMs: 300_000 },
      sticky: { enabled: true, price: 10 },
      ...engine,
    },
    holderLostMs: 5000,
    sweepIntervalMs,
    reconcilesAtStart: true,
    historyMs,
    usageMs: 1e15,
    sessions: { archiveAfterMs: 86_400_000, keepMs: Number.POSITIVE_INFINITY },
    purgeIntervalMs,
    drainMs: 1000,
  };
}

/** A few jobs fill one. */
const SEGMENT_BYTES = 10 * 1024;

const limits = (segmentBytes: number): LogLimits => ({
  minSegmentBytes: segmentBytes,
  maxSegmentBytes: segmentBytes,
  maxFrameBytes: 2 ** 20,
  maxPendingBytes: 2 ** 24,
});

/** Sealed segments beyond this go with the next checkpoint. */
const AUDIT_BYTES = 2 * SEGMENT_BYTES;
const NEVER_MS = 2 ** 31 - 1;

export interface BrainOptions {
  readonly pace: Pace;
  /** As in production, or inline so that every disk call has its place in one order. */
  readonly background: 'inline' | 'thread';
  readonly ledger?: Omit<LedgerOptions, 'folder'>;
  readonly watchHistory?: (history: HistoryIndex) => HistoryIndex;
  readonly segmentBytes?: number;
  /** The data are rows in a database, reached like this, and not in the folder. */
  readonly connect?: Connect;
  readonly engine?: Partial<EngineSettings>;
  /** Backends instead of the ledger's; they may ask the brain. */
  readonly backends?: (brain: () => Orchestrator) => readonly Backend[];
}

export interface Brain {
  readonly orchestrator: Orchestrator;
  readonly warnings: readonly string[];
}

export function buildStore(
  env: Env,
  data: string,
  options: BrainOptions,
  onWarning: (message: string) => void,
): JournalStore {
  const watch = options.watchHistory ?? ((history) => history);
  return new JournalStore(env, {
    folder: data,
    checkpointIntervalMs: NEVER_MS,
    historyMs: historyOf(options.pace),
    auditMs: Number.MAX_SAFE_INTEGER,
    auditBytes: AUDIT_BYTES,
    limits: limits(options.segmentBytes ?? SEGMENT_BYTES),
    background: (paths) =>
      options.background === 'thread'
        ? new ThreadBackground(paths, env.timers)
        : new InlineBackground(env.disk, paths, watch(new SqliteHistory(paths.history, 'write'))),
    onWarning,
  });
}

/** Built, not started. */
export function buildBrain(env: Env, folders: Folders, options: BrainOptions): Brain {
  const warnings: string[] = [];
  const { connect } = options;
  const store = connect
    ? new MariaDbStore(env, { connect })
    : buildStore(env, folders.data, options, (message) => warnings.push(message));
  const backends =
    options.backends ?? (() => [new LedgerBackend(env, { folder: folders.ledger, ...options.ledger })]);
  const orchestrator: Orchestrator = new Orchestrator({
    env,
    store,
    backends: backends(() => orchestrator),
    settings: settings(options.pace, options.engine ?? {}),
  });
  return { orchestrator, warnings };
}
