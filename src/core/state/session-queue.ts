/**
 * The jobs of one session that run one at a time: the job that may run, then the others in order of admission. A job
 * leaves it in constant time, wherever it is: a session may have 100,000 jobs, and all of them may be cancelled.
 */
import type { JobEntry } from './job-entry.ts';

/** Up to this length a job is searched for; the places of a longer queue are kept in a map. */
const SHORT = 64;

export class SessionQueue {
  /** The places before `#head`, and those of jobs that have left, are undefined. */
  #places: (JobEntry | undefined)[] = [];
  #head = 0;
  #size = 0;
  /** The place of each job, for a queue with more than SHORT places. */
  #placeOf: Map<JobEntry, number> | undefined;

  get size(): number {
    return this.#size;
  }

  get head(): JobEntry | undefined {
    return this.#places[this.#head];
  }

  /** Adds a job: a queued one by its order of admission and behind jobs that have begun, any other one as the head. */
  add(entry: JobEntry): void {
    const last = this.#places.at(-1);
    this.#size++;
    if (this.#size === 1 || (last && isBehind(entry, last))) {
      this.#placeOf?.set(entry, this.#places.length);
      this.#places.push(entry);
    } else this.#insert(entry);
    if (!this.#placeOf && this.#places.length > SHORT) this.#replace(this.#jobs());
  }

  /** Returns whether the job was the head. */
  delete(entry: JobEntry): boolean {
    const place = this.#placeOf ? this.#placeOf.get(entry) : this.#places.indexOf(entry);
    if (place === undefined || place < 0) return false;
    this.#placeOf?.delete(entry);
    this.#places[place] = undefined;
    this.#size--;
    const wasHead = place === this.#head;
    // A hole at the end would make the next job look as if it came out of order.
    while (this.#places.length > this.#head && !this.#places.at(-1)) this.#places.pop();
    while (this.#head < this.#places.length && !this.#places[this.#head]) this.#head++;
    if (this.#places.length > SHORT && this.#places.length > 2 * this.#size) this.#replace(this.#jobs());
    return wasHead;
  }

  #insert(entry: JobEntry): void {
    const jobs = this.#jobs();
    let at = hasBegun(entry) ? 0 : jobs.length;
    while (at > 0 && !isBehind(entry, jobs[at - 1] as JobEntry)) at--;
    jobs.splice(at, 0, entry);
    this.#replace(jobs);
  }

  #jobs(): JobEntry[] {
    return this.#places.filter((job) => job !== undefined);
  }

  #replace(jobs: JobEntry[]): void {
    this.#places = jobs;
    this.#head = 0;
    this.#placeOf = jobs.length > SHORT ? new Map(jobs.map((job, place) => [job, place])) : undefined;
  }
}

/**
 * A job that has waited stands in the queue between two of its attempts. One that was redriven begins anew: until it has
 * waited or failed again it has no `notBefore`.
 */
const hasBegun = ({ job: { state, wait, notBefore } }: JobEntry): boolean =>
  state !== 'queued' || (wait !== undefined && notBefore !== undefined);

/** Whether a job stands behind another one. A redriven job regains its place, but not before one that has begun. */
const isBehind = (entry: JobEntry, other: JobEntry): boolean =>
  !hasBegun(entry) && (hasBegun(other) || other.ask.n < entry.ask.n);
