/**
 * The ready jobs in their lanes, and the fleet of backends that can run them. The queue follows the state and decides
 * nothing.
 *
 * Q1  A job is in a lane exactly while the state reports it as ready.
 * Q2  The used slots of a backend are the attempts open on it, without those that its executor no longer runs.
 */
import type { AttemptRecord, JobClass } from '../../model/records.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { StateFollower } from '../state/state.ts';
import { Fleet, laneOf } from './fleet.ts';
import { StartRate } from './start-rate.ts';

export class Queue implements StateFollower {
  readonly fleet = new Fleet();
  /** Ready jobs by class, over all lanes. */
  readonly waiting: Record<JobClass, { jobs: number; bytes: number }> = {
    interactive: { jobs: 0, bytes: 0 },
    batch: { jobs: 0, bytes: 0 },
  };
  readonly startRate = new StartRate();
  /** No job is claimed before this instant; set by attempts/expiry.ts. */
  claimsFrom = 0;

  ready(entry: JobEntry, readyAt: number): void {
    if (entry.isWaiting) return;
    const lane = laneOf(entry) ?? this.fleet.findOrCreateLane(entry.ask);
    entry.lane = lane;
    entry.readyAt = readyAt;
    lane.queueOf(entry.ask.spec.priority).add(entry);
    this.#countWaiting(entry, 1);
    this.fleet.updateLane(lane);
  }

  unready(entry: JobEntry): void {
    const lane = laneOf(entry);
    if (!lane) return;
    // A picked job has left the queue of its lane already.
    if (entry.isWaiting) lane.queueOf(entry.ask.spec.priority).remove(entry);
    entry.lane = undefined;
    this.#countWaiting(entry, -1);
    this.fleet.updateLane(lane);
  }

  attemptOpened(entry: JobEntry, { backend, at }: AttemptRecord): void {
    this.fleet.occupy(backend, at, entry.ask.spec.priority);
  }

  attemptClosed(entry: JobEntry, { backend, at }: AttemptRecord, now: number): void {
    this.fleet.vacate(backend, now, at, entry.ask.spec.priority);
  }

  #countWaiting({ ask }: JobEntry, by: 1 | -1): void {
    const waiting = this.waiting[ask.spec.priority];
    waiting.jobs += by;
    waiting.bytes += by * ask.payloadBytes;
  }
}
