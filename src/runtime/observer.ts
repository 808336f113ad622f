/** Those who watch the brain: they hear of changes once these are durable, and are never asked anything. */
import type { Engine } from '../core/engine/engine.ts';
import { jobPosition } from '../core/scheduling/predict.ts';
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

export interface Observer {
  /** A brain begins, with these jobs. */
  recovered(jobs: Iterable<ObservedJob>): void;
  changed(changes: readonly Change[], now: number, observed: Observed): void;
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
