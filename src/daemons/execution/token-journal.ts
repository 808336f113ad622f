/** Keeps the tokens of an executor over the death of its process. A worker has none: its memory dies with it. */
import type { WorkerOutcome } from '../../model/worker-wire.ts';
import type { Execution } from './execution.ts';

export interface TokenJournal {
  /** Settles when the token is durable. Rejects with WORKER_BUSY if it cannot be: the execution must not begin then. */
  begun(execution: Execution): Promise<void>;
  /** Settles when the outcome is durable, however long that takes: it must not be told before. */
  ended(execution: Execution, outcome: WorkerOutcome): Promise<void>;
  /** Settles when the tombstone is durable; rejects with WORKER_BUSY if it cannot be. */
  buried(owner: string, token: string, at: number): Promise<void>;
  /** These may be lost with the process: a result that comes back is acknowledged or dropped again. */
  acknowledged(owner: string, token: string): void;
  dropped(owner: string, token: string): void;
  /** Settles when the end of the token no longer counts; its result is gone from the disk soon after. Rejects with WORKER_BUSY. */
  erased(owner: string, token: string): Promise<void>;
  /** The token was removed to make room; every token since `since` is known. */
  removed(owner: string, token: string, since: number): void;
}
