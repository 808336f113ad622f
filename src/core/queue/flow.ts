/**
 * The waiting jobs of one agent in one class of one lane: highest score first, then first come.
 */

import { SortedList } from '../../kit/sorted-list.ts';
import { isEarlier } from '../../model/line.ts';
import type { JobEntry } from '../state/job-entry.ts';

function ahead(a: JobEntry, b: JobEntry): boolean {
  if (a.ask.spec.score !== b.ask.spec.score) return a.ask.spec.score > b.ask.spec.score;
  return isEarlier(a.ask, b.ask);
}

export class Flow {
  readonly owner: string;
  /** The virtual time of fair queueing: the sum of the weights served. The flow with the lowest is next. */
  vtime = 0;
  /** The index in the heap of active flows; -1 outside. */
  pos = -1;
  readonly #jobs = new SortedList<JobEntry>(ahead);
  /** The weights of all jobs together. */
  #weight = 0;

  constructor(owner: string) {
    this.owner = owner;
  }

  get size(): number {
    return this.#jobs.size;
  }

  /** The mean weight of its jobs. */
  get meanWeight(): number {
    return this.#weight / this.size;
  }

  head(): JobEntry | undefined {
    return this.#jobs.first();
  }

  add(entry: JobEntry): void {
    this.#jobs.add(entry);
    this.#weight += entry.ask.spec.weight;
    entry.isWaiting = true;
  }

  remove(entry: JobEntry): void {
    if (!entry.isWaiting) return;
    this.#jobs.remove(entry);
    // A sum of fractions that returns to nothing may leave a rest.
    this.#weight = this.size === 0 ? 0 : this.#weight - entry.ask.spec.weight;
    entry.isWaiting = false;
  }

  /** How many jobs of this flow go before `entry`. */
  rankOf(entry: JobEntry): number {
    return this.#jobs.rankOf(entry);
  }
}
