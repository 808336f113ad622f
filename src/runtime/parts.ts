/** What an orchestrator is made of. */

import type { Backend, PoolManagers, Store } from '../core/ports.ts';
import type { EngineSettings } from '../core/settings.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { State } from '../core/state/state.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { Change } from '../model/records.ts';

export interface RuntimeSettings {
  readonly engine: EngineSettings;
  readonly holderLostMs: number;
  readonly sweepIntervalMs: number;
  readonly historyMs: number;
  readonly purgeIntervalMs: number;
  /** How long a stop waits for work that would be lost. */
  readonly drainMs: number;
}

export interface OrchestratorParts {
  readonly env: Env;
  readonly store: Store;
  readonly backends: readonly Backend[];
  readonly managers?: PoolManagers;
  readonly settings: RuntimeSettings;
  readonly logger?: Logger;
  readonly observer?: Observer;
}

/** Hears of changes once they are durable, and of what was there at the start. */
export interface Observer {
  recovered(jobs: Iterable<JobEntry>): void;
  changed(changes: readonly Change[], now: number, state: State): void;
}
