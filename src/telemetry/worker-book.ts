/**
 * Turns changes of worker records into events for the log and the metrics. It keeps the last record of each worker,
 * because the state no longer has the record of a worker that is gone.
 */
import { workerBackend } from '../core/ports/pools.ts';
import type { Cause, WorkerReason } from '../model/causes.ts';
import type { WorkerRecord } from '../model/records.ts';
import type { ObservedState } from '../runtime/observer.ts';

export type WorkerWhat =
  | 'ordered'
  | 'found'
  | 'ready'
  | 'start_failed'
  | 'failed'
  | 'draining'
  | 'evicted'
  | 'gone'
  | 'died';

export interface WorkerMove {
  readonly what: WorkerWhat;
  readonly id: string;
  readonly record: WorkerRecord;
  readonly before: WorkerRecord | undefined;
  readonly to: WorkerRecord['state'] | 'gone';
  /** The error code of a worker that failed. */
  readonly errorCode: string | undefined;
}

export class WorkerBook {
  readonly #records = new Map<string, WorkerRecord>();
  #isRead = false;

  /** A new brain starts: its workers are read with its first changes. */
  forget(): void {
    this.#records.clear();
    this.#isRead = false;
  }

  read(observed: ObservedState): void {
    if (this.#isRead) return;
    this.#isRead = true;
    for (const [id, record] of observed.workers()) this.#records.set(id, record);
  }

  /** Undefined if the change is no event. */
  moved(id: string, after: WorkerRecord | null, cause: Cause): WorkerMove | undefined {
    const before = this.#records.get(id);
    if (after) this.#records.set(id, after);
    else this.#records.delete(id);
    const record = after ?? before;
    if (!record) return undefined;
    const errorCode = after?.state === 'stopping' && after.why.is === 'failed' ? after.why.code : undefined;
    const what = whatOf(before, after, cause, errorCode);
    return { what, id, record, before, to: after?.state ?? 'gone', errorCode };
  }

  /** The worker behind a backend, and its own id. */
  of(backend: string): { readonly id: string; readonly record: WorkerRecord } | undefined {
    if (this.#records.size === 0) return undefined;
    const id = backend.slice(backend.indexOf('/') + 1);
    const record = this.#records.get(id);
    return record && workerBackend(record.pool, id) === backend ? { id, record } : undefined;
  }
}

function whatOf(
  before: WorkerRecord | undefined,
  after: WorkerRecord | null,
  cause: Cause,
  errorCode: string | undefined,
): WorkerWhat {
  if (!after) return cause === 'died' ? 'died' : 'gone';
  if (cause === 'found') return 'found';
  switch (after.state) {
    case 'starting':
      return 'ordered';
    case 'running':
      return 'ready';
    case 'draining':
      return 'draining';
    case 'stopping':
      if (errorCode === undefined) return 'evicted';
      return before?.state === 'starting' || errorCode.startsWith('WORKER_START') ? 'start_failed' : 'failed';
  }
}

/** Why a worker was started, as one of a few words. */
export function startReason({ is }: WorkerReason): string {
  return is === 'demand' || is === 'load' || is === 'reload' || is === 'prewarm' ? is : 'other';
}

/** Why a worker was stopped, as one of a few words. */
export function leaveReason({ is }: WorkerReason): string {
  switch (is) {
    case 'evicted':
    case 'drained':
      return 'room';
    case 'idle':
      return 'idle';
    case 'evicted-by':
    case 'pool-drained':
    case 'pool-reloaded':
      return 'operator';
    default:
      return 'other';
  }
}
