/**
 * Observers of the brain (metrics, narration): they are notified of durable changes and never take part in a decision.
 */
import type { Engine } from '../core/engine/engine.ts';
import { jobPosition } from '../core/scheduling/predict.ts';
import type { OrchdError } from '../model/errors.ts';
import type { AskRecord, AttemptRecord, Change, JobRecord, WorkerRecord } from '../model/records.ts';

/** A job as an observer sees it. It may have changed since the change that is reported. */
export interface ObservedJob {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  readonly open: AttemptRecord | undefined;
  readonly past: readonly AttemptRecord[] | undefined;
  /** When the job became ready to run, the last time it waited. */
  readonly readyAt: number;
}

/** The state that an observer may look up. */
export interface ObservedState {
  job(uid: string): ObservedJob | undefined;
  /** Number of ready jobs ahead of this one in its lane; undefined if it is in no lane. */
  position(uid: string): number | undefined;
  hasBackend(name: string): boolean;
  /** The reference of a model in the catalog; undefined if the catalog does not have it. */
  modelRef(id: string): string | undefined;
  workers(): Iterable<readonly [id: string, record: WorkerRecord]>;
}

/** The answer to a submit, as reported to an observer. */
export interface ObservedSubmit {
  /** Set for a duplicate: whether its job id or its key existed already. */
  readonly duplicate_of?: 'job_id' | 'key';
  readonly predicted_start_ms?: number;
}

/** Whose submit was refused, as far as it is known. */
export interface RefusedCaller {
  readonly correlationId?: string | undefined;
  readonly submittedBy?: string | undefined;
  readonly tenant?: string | undefined;
}

export interface Observer {
  /** A brain has started, with the recovered jobs. */
  recovered(jobs: Iterable<ObservedJob>): void;
  changed(changes: readonly Change[], now: number, observed: ObservedState): void;
  /** A submit was answered with a job, new or existing. The job is durable, and may have changed since. */
  submitted?(answer: ObservedSubmit, uid: string, observed: ObservedState): void;
  /** A commit is durable, so long after its changes were decided. */
  committed?(tookMs: number): void;
  /** A running attempt has sent a token event. */
  tokenReceived?(): void;
  /** A submit was answered with an error. */
  refused?(error: OrchdError, who: RefusedCaller): void;
}

export function observedStateOf({ state, queue }: Engine): ObservedState {
  return {
    job: (uid) => state.jobs.get(uid),
    position: (uid) => {
      const entry = state.jobs.get(uid);
      return entry && jobPosition(entry);
    },
    hasBackend: (name) => queue.fleet.backends.has(name),
    modelRef: (id) => state.catalog.find(id)?.ref,
    workers: () => state.workers.entries(),
  };
}
