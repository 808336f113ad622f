/**
 * The waiting jobs of one agent in one class of one lane: highest score first, then first come.
 */

import { IndexedHeap } from '../../kit/indexed-heap.ts';
import type { JobEntry } from '../state/job-entry.ts';

const QUEUE_POSITION = {
  get: (entry: JobEntry) => entry.queuePos,
  set: (entry: JobEntry, position: number) => {
    entry.queuePos = position;
  },
};

function ahead(a: JobEntry, b: JobEntry): boolean {
  if (a.ask.spec.score !== b.ask.spec.score) return a.ask.spec.score > b.ask.spec.score;
  return a.ask.n < b.ask.n;
}

/** Up to this many jobs a rank is counted exactly; beyond, it is estimated from the order of arrival. */
const EXACT_RANK = 64;

export class Flow {
  readonly owner: string;
  /** The virtual time of fair queueing: the sum of the weights served. The flow with the lowest is next. */
  vtime = 0;
  /** The index in the heap of active flows; -1 outside. */
  pos = -1;
  readonly #jobs = new IndexedHeap<JobEntry>(ahead, QUEUE_POSITION);

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

  /** How many jobs of this flow go before `entry`: exact for a short flow, else an estimate by arrival. */
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
