/**
 * What a manager does about a worker, with the timers and the connection that it has for it meanwhile:
 *
 *   new → beginning → starting → serving → ending → gone → removing → removed
 *
 * A worker that an earlier manager has started is adopted into the phase that it is in. Each of the first four may be
 * followed by ending, and a worker that was stopped goes on from there to removing. Any may be followed by closed.
 */
import type { Cancel } from '../../kit/env/env.ts';
import type { WorkerConnection } from './worker-connection.ts';

export type WorkerPhase =
  | { readonly is: 'new' }
  /** Its order is written down, and its process started. */
  | { readonly is: 'beginning' }
  /** Its process runs, and has not said yet that it is ready. */
  | {
      readonly is: 'starting';
      readonly startDeadline: Cancel;
      readonly watch: Cancel;
      readonly drainDeadline: Cancel;
    }
  | {
      readonly is: 'serving';
      readonly connection: WorkerConnection;
      /** How many executions it has in hand. */
      readonly active: number;
      readonly watch: Cancel;
      readonly drainDeadline: Cancel;
    }
  /** Its processes are being ended; `done` settles when they are, and with `removes` when it is removed too. */
  | { readonly is: 'ending'; readonly removes: boolean; readonly done: Promise<void> }
  /** It has failed, and nothing of it lives; its record stays until it is stopped. */
  | { readonly is: 'gone' }
  /** It was stopped, and nothing of it lives. */
  | { readonly is: 'removing'; readonly done: Promise<void> }
  | { readonly is: 'removed' }
  /** This manager has let go of it; its process goes on. */
  | { readonly is: 'closed' };
