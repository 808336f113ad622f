/** The paths and shapes in which executors differ. Everything else about them is in executor-backend.ts. */
import type { KillHow, Offer } from '../../core/ports/backend.ts';
import type { ExecutionList, ExecutionState } from '../../model/worker-wire.ts';

export interface ExecutorRequest {
  readonly path: string;
  readonly body: string;
}

export interface ExecutorProtocol {
  /** Below it is each execution by its token, and below that `events`, `ack` and `erase`. */
  readonly executionsPath: string;
  /** Lists the executions of the calling owner. */
  readonly listPath: string;
  /** The POST that offers an attempt. `work` is an ExecuteRequest as JSON. */
  offer(offer: Offer, work: string): ExecutorRequest;
  /** The POST that is answered with a CancelReply. */
  kill(token: string, how: KillHow): ExecutorRequest;
  /** These two throw where the answer does not have the agreed form. */
  readList(answer: unknown): ExecutionList;
  readState(answer: unknown): Pick<ExecutionState, 'state' | 'outcome'>;
}
