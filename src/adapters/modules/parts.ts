/** What all parts of the modules share. */
import type { BackoffPolicy } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import type { ScanCounts } from './scan-counts.ts';

/** Counts for metrics; they go on over changes of the leader. */
export interface ModuleObserver {
  scanned(module: string, outcome: 'ok' | 'failed' | 'waiting', counts: ScanCounts): void;
  handled(module: string, outcome: 'ok' | 'failed'): void;
}

export interface ModuleParts {
  readonly env: Env;
  readonly logger: Logger;
  readonly orchestrator: Pick<Orchestrator, 'submitMany' | 'getJson' | 'reads' | 'ends' | 'moduleMarks'>;
  readonly observer: ModuleObserver;
  /** Names the data folder among all of the machine, in the marks of processes. */
  readonly scope: string;
}

/** The pauses after failures in a row, of scans and of handling. */
export const RETRY: BackoffPolicy = { baseDelayMs: 1000, maxDelayMs: 300_000, jitter: 0.2 };
