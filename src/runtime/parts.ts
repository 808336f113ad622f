/** The parts and settings from which an orchestrator is built. */

import type { Backend, BackendSource } from '../core/ports/backend.ts';
import type { Doorbell } from '../core/ports/doorbell.ts';
import type { PoolManagers } from '../core/ports/pools.ts';
import type { Store } from '../core/ports/store.ts';
import type { EngineSettings } from '../core/settings.ts';
import type { ByteRoom } from '../kit/byte-room.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import type { Observer } from './observer.ts';
import type { SessionSettings } from './session-archive.ts';

export interface RuntimeSettings {
  readonly engine: EngineSettings;
  readonly holderLostMs: number;
  readonly sweepIntervalMs: number;
  /** Whether open attempts are compared with what executors run when they first answer. */
  readonly reconcilesAtStart: boolean;
  readonly historyMs: number;
  /** How long the charges of attempts are kept. */
  readonly usageMs: number;
  readonly purgeIntervalMs: number;
  readonly sessions: SessionSettings;
  /** How long a stop waits for work that would be lost. */
  readonly drainMs: number;
}

export interface OrchestratorParts {
  readonly env: Env;
  readonly store: Store;
  readonly backends: readonly Backend[];
  /** Sources that add and remove further backends. */
  readonly sources?: readonly BackendSource[];
  /** The pool managers: a source of workers that the brain can also start and stop. */
  readonly managers?: PoolManagers;
  readonly settings: RuntimeSettings;
  /** Where consumers hear of work, if not by their requests alone. */
  readonly doorbell?: Doorbell;
  /** The memory for large results that are being sent; a server shares it with its other large answers. */
  readonly answerRoom?: ByteRoom;
  /** The store is a copy, or a restored backup: the brain goes on under an owner of its own (docs/decisions/0024). */
  readonly isCopy?: boolean;
  readonly logger?: Logger;
  readonly observer?: Observer;
}
