/**
 * Hands jobs that have ended over to the history of the store, flush by flush.
 *
 * H1  A job is handed over only when its end is durable.
 * H2  `upTo` passes a change only when every job that had ended by then was handed over.
 */

import type { JobBundle, Seq, Store } from '../core/ports/store.ts';
import { bundleOf, type JobEntry } from '../core/state/job-entry.ts';

export class HistoryFeed {
  readonly #store: Pick<Store, 'index'>;
  #ended: JobBundle[] = [];
  #upTo: Seq = 0;
  #heldUntil: Seq = 0;

  constructor(store: Pick<Store, 'index'>) {
    this.#store = store;
  }

  /** `ended`: the jobs that recovery found ended and that the history may lack; `seq`: the last recovered change. */
  begin(ended: Iterable<JobEntry>, seq: Seq): void {
    this.#upTo = seq;
    this.#store.index(Array.from(ended, bundleOf), seq);
  }

  /** The end of the job is durable. */
  ended(entry: JobEntry): void {
    this.#ended.push(bundleOf(entry));
  }

  /**
   * The job has moved on in a change that is not durable yet. Only a redriven job can have ended before that: its
   * former end is no longer in memory, so `upTo` waits until the later change is durable.
   */
  movedOn({ job, seq }: JobEntry): void {
    if (job.redrivenAt !== undefined) this.#heldUntil = Math.max(this.#heldUntil, seq);
  }

  /** Everything up to `seq` is durable, and every job that this touched was looked at. */
  flushed(seq: Seq): void {
    if (seq >= this.#heldUntil) this.#upTo = seq;
    const ended = this.#ended;
    this.#ended = [];
    this.#store.index(ended, this.#upTo);
  }
}
