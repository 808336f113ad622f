/**
 * The waiting jobs of one principal in one class of one lane: best score first, then first come.
 */

import { IndexedHeap } from '../../kit/indexed-heap.ts';
import type { JobEntry } from '../state/job-entry.ts';

const QUEUE_PLACE = {
  get: (entry: JobEntry) => entry.queuePos,
  set: (entry: JobEntry, position: number) => {
    entry.queuePos = position;
  },
};

function ahead(a: JobEntry, b: JobEntry): boolean {
  if (a.ask.spec.score !== b.ask.spec.score) return a.ask.spec.score > b.ask.spec.score;
  return a.ask.n < b.ask.n;
}

/** Up to this many jobs a rank is counted exactly; beyond, it is estimated from arrivals. */
const EXACT_RANK = 64;

export class Flow {
  readonly owner: string;
  /** Virtual time of fair sharing: the flow with the least is served next. */
  vtime = 0;
  /** Position among the active flows of its class. */
  pos = -1;
  readonly #jobs = new IndexedHeap<JobEntry>(ahead, QUEUE_PLACE);

  constructor(owner: string) {
    this.owner = owner;
  }

  get size(): number {
    return this.#jobs.size;
  }

  head(): JobEntry | undefined {
    return this.#jobs.peek();
  }

  add(entry: JobEntry): void {
    this.#jobs.push(entry);
  }

  remove(entry: JobEntry): void {
    this.#jobs.remove(entry);
  }

  /** Jobs of this flow that go before `entry`: exact when few, else this flow's part of those that came before. */
  rankOf(entry: JobEntry, classSize: number): number {
    const jobs = this.#jobs.items();
    if (jobs.length <= EXACT_RANK) {
      let rank = 0;
      for (const other of jobs) if (ahead(other, entry)) rank++;
      return rank;
    }
    const head = this.#jobs.peek() as JobEntry;
    const span = ((entry.readyOrder - head.readyOrder) * jobs.length) / classSize;
    return Math.max(0, Math.min(jobs.length - 1, Math.round(span)));
  }
}
