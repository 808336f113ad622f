/** Those who watch the brain: they hear of changes once these are durable, and are never asked anything. */
import type { Engine } from '../core/engine/engine.ts';
import { jobPosition } from '../core/scheduling/predict.ts';
import type { OrchdError } from '../model/errors.ts';
import type { AskRecord, AttemptRecord, Change, JobRecord, WorkerRecord } from '../model/records.ts';

/** A job as an observer sees it. It may have gone on since the change that is told of. */
export interface ObservedJob {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly job: JobRecord;
  readonly open: AttemptRecord | undefined;
  readonly past: readonly AttemptRecord[] | undefined;
  /** Since when it could have run, the last time that it waited. */
  readonly readyAt: number;
}

/** What an observer may look up. */
export interface Observed {
  job(uid: string): ObservedJob | undefined;
  /** The ready jobs ahead of a job in its lane; undefined for one that is in none. */
  position(uid: string): number | undefined;
  hasBackend(name: string): boolean;
  workers(): Iterable<readonly [id: string, record: WorkerRecord]>;
}

/** What an observer is told of the answer to a submit. */
export interface ObservedSubmit {
  /** Set when the job was there before: by which of the caller's names. */
  readonly duplicate_of?: 'job_id' | 'key';
  readonly predicted_start_ms?: number;
}

export interface Observer {
  /** A brain begins, with these jobs. */
  recovered(jobs: Iterable<ObservedJob>): void;
  changed(changes: readonly Change[], now: number, observed: Observed): void;
  /** A submit was answered with a job, new or known already. The job is durable, and may have moved on since. */
  submitted?(answer: ObservedSubmit, uid: string, observed: Observed): void;
  /** A submit was answered with an error. */
  refused?(error: OrchdError): void;
}

export function observedIn({ state, queue }: Engine): Observed {
  return {
    job: (uid) => state.jobs.get(uid),
    position: (uid) => {
      const entry = state.jobs.get(uid);
      return entry && jobPosition(entry);
    },
    hasBackend: (name) => queue.fleet.backends.has(name),
    workers: () => state.workers.entries(),
  };
}
