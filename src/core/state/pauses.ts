/**
 * Which jobs are paused. A job is held by a pause of its own, or of any job above it.
 *
 * P1  A pause is a field of one record: that of the paused job. Whether it holds another job follows from that job's
 *     ancestors, of which there are at most MAX_DEPTH.
 * P2  When a pause begins or ends, the jobs below are moved out of their lanes, or back, a bounded number in each step.
 *     Until then `holds` says already what is true, and scheduling asks it before every claim. The same holds for
 *     pauses in a log that is replayed.
 */
import type { ReadonlySmallSet } from '../../kit/small-set.ts';
import { uidOf } from '../../model/records.ts';
import { isTerminal } from '../../model/states.ts';
import type { JobEntry } from './job-entry.ts';

export class Pauses {
  /** The uids of the live jobs that are paused themselves. */
  readonly #paused = new Set<string>();
  /** For each job whose pause has begun or ended: the jobs below it that are still to be moved. */
  readonly #unsettled = new Map<string, Iterator<JobEntry>>();

  get isUnsettled(): boolean {
    return this.#unsettled.size > 0;
  }

  /** Whether the job, or one above it, is paused. */
  holds(entry: JobEntry): boolean {
    return this.#paused.size > 0 && (this.#paused.has(entry.uid) || this.pausedAbove(entry) !== undefined);
  }

  /** The topmost paused job above this one, by its id. */
  pausedAbove({ ask: { tenant, ancestors } }: JobEntry): string | undefined {
    return ancestors?.find((id) => this.#paused.has(uidOf(tenant, id)));
  }

  /** The record of a job has changed. `below`: the live jobs below it. */
  note({ uid, job }: JobEntry, below: ReadonlySmallSet<JobEntry>): void {
    const isPaused = job.paused !== undefined && !isTerminal(job.state);
    if (this.#paused.has(uid) === isPaused) return;
    if (isPaused) this.#paused.add(uid);
    else this.#paused.delete(uid);
    if (below.size > 0) this.#unsettled.set(uid, below[Symbol.iterator]());
  }

  /** The next job that is to be put where it belongs now; undefined once all are. */
  next(): JobEntry | undefined {
    for (const [uid, jobs] of this.#unsettled) {
      const { value, done } = jobs.next();
      if (!done) return value;
      this.#unsettled.delete(uid);
    }
    return undefined;
  }
}
