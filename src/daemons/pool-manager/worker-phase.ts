/**
 * What the manager currently does with a worker. Each phase owns its timers and its connection:
 *
 *   new → beginning → starting → serving → ending → gone → removing → removed
 *
 * A worker of an earlier manager is adopted directly into the phase that fits. Each of the first four phases may go to
 * ending; a stopped worker goes from ending to removing. Any phase may go to closed.
 */
import type { Cancel } from '../../kit/env/env.ts';
import type { WorkerConnection } from './worker-connection.ts';

export type WorkerPhase =
  | { readonly is: 'new' }
  /** The record is being written and the process started. */
  | { readonly is: 'beginning' }
  /** The process runs and has not reported that it is ready. */
  | {
      readonly is: 'starting';
      readonly startDeadline: Cancel;
      readonly watch: Cancel;
      readonly drainDeadline: Cancel;
    }
  | {
      readonly is: 'serving';
      readonly connection: WorkerConnection;
      /** The number of running executions at the last health check. */
      readonly active: number;
      readonly watch: Cancel;
      readonly drainDeadline: Cancel;
    }
  /** The processes are being ended; `done` settles when they have ended, and with `removes` when the record is removed too. */
  | { readonly is: 'ending'; readonly removes: boolean; readonly done: Promise<void> }
  /** The worker has failed and none of its processes is alive; its record stays until it is stopped. */
  | { readonly is: 'gone' }
  /** The worker was stopped and none of its processes is alive; its record is being removed. */
  | { readonly is: 'removing'; readonly done: Promise<void> }
  | { readonly is: 'removed' }
  /** This manager has stopped managing the worker; its process goes on. */
  | { readonly is: 'closed' };
