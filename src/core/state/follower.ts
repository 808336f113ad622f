/** What the state tells the queue, which is above it. */
import type { AttemptRecord } from '../../model/records.ts';
import type { JobEntry } from './job-entry.ts';

/** An index kept by a folder above. State calls it within `apply`, so it never lags behind the records. */
export interface StateFollower {
  /** The job can run from now on, unless a limit holds it up. `readyAt` is the instant since which it could have run. */
  ready(entry: JobEntry, readyAt: number, now: number): void;
  /** The job no longer waits for a backend. Called for jobs that were not ready, too. */
  unready(entry: JobEntry): void;
  /** Other backends have heard the conversation of a queued job by now. Called for jobs that are not ready, too. */
  conversationMoved(entry: JobEntry, now: number): void;
  /** An attempt uses a slot of its backend from now on, or no longer. */
  attemptOpened(entry: JobEntry, attempt: AttemptRecord): void;
  attemptClosed(entry: JobEntry, attempt: AttemptRecord, now: number): void;
  /** An attempt is open from now on, whether it uses a slot or not. */
  attemptBegun(entry: JobEntry, attempt: AttemptRecord, now: number): void;
  /** An attempt is closed, and has the cost that its record says. */
  attemptOver(entry: JobEntry, attempt: AttemptRecord, now: number): void;
}

export const NO_FOLLOWER: StateFollower = {
  ready: () => undefined,
  unready: () => undefined,
  conversationMoved: () => undefined,
  attemptOpened: () => undefined,
  attemptClosed: () => undefined,
  attemptBegun: () => undefined,
  attemptOver: () => undefined,
};
