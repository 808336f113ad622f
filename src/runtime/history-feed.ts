/**
 * Passes ended jobs to the history of the store, flush by flush.
 *
 * H1  A job is passed on only when its end is durable.
 * H2  `upTo` passes a change only when all jobs that had ended by then were passed on.
 */

import type { JobBundle, Seq, Store } from '../core/ports/store.ts';
import { bundleOf, type JobEntry } from '../core/state/job-entry.ts';

export class HistoryFeed {
  readonly #store: Pick<Store, 'index'>;
  #ended: JobBundle[] = [];
  #upTo: Seq = 0;
  #waitsForSeq: Seq = 0;

  constructor(store: Pick<Store, 'index'>) {
    this.#store = store;
  }

  /** `ended`: the jobs that recovery found ended and that the history may lack; `seq`: the last recovered change. */
  begin(ended: Iterable<JobEntry>, seq: Seq): void {
    this.#upTo = seq;
    this.#store.index(Array.from(ended, bundleOf), seq);
  }

  /** Called when the end of a job is durable. */
  ended(entry: JobEntry): void {
    this.#ended.push(bundleOf(entry));
  }

  /**
   * Called for a job that has changed again before an earlier change became durable. If it was redriven, the earlier
   * change may have been its end, which is no longer in memory: `upTo` then waits until the later change is durable.
   */
  movedOn({ job, seq }: JobEntry): void {
    if (job.redrivenAt !== undefined) this.#waitsForSeq = Math.max(this.#waitsForSeq, seq);
  }

  /**
   * Called when everything up to `seq` is durable, after `ended` or `movedOn` was called for all jobs changed until
   * then.
   */
  flushed(seq: Seq): void {
    if (seq >= this.#waitsForSeq) this.#upTo = seq;
    const ended = this.#ended;
    this.#ended = [];
    this.#store.index(ended, this.#upTo);
  }
}
