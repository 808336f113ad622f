/**
 * Remembers which ended jobs of a module were handled, in a record of the store. Jobs end in another order than that of
 * their admission, so it is a list of ranges of admission numbers; the first begins at 0.
 *
 * M1  A number is added after its job was handled, never before: after a crash in between the job is handled again.
 * M2  The list is short: ranges with no other job of the module between them are joined from time to time, and while
 *     there are `maxRanges` all the same, only jobs are handled that are next to a range.
 */
import type { HandledRange } from '../../model/module-record.ts';
import type { TaggedJob } from '../../runtime/tagged-jobs.ts';

/** A record with so many takes some 30 kB, and is written for each handled end. */
const MAX_RANGES = 2000;
/** Ranges are joined after so many handled jobs: that reads the jobs in between. */
const JOIN_EVERY = 256;
const PAGE = 500;

/** The jobs of the module after an admission number, the oldest first. */
export type JobsAfter = (n: number, limit: number) => Promise<readonly TaggedJob[]>;

export interface MarkParts {
  readonly jobsAfter: JobsAfter;
  /** Resolves when the ranges are on stable storage. */
  readonly write: (ranges: readonly HandledRange[]) => Promise<void>;
  readonly maxRanges?: number;
}

export class HandledMark {
  readonly #parts: MarkParts;
  /** Never empty. */
  #ranges: HandledRange[];
  #added = 0;
  /** The lowest number since ranges were joined; at first all are looked at, for what the history has forgotten. */
  #lowest = 1;

  constructor(parts: MarkParts, written: readonly HandledRange[]) {
    this.#parts = parts;
    this.#ranges = written.length > 0 ? [...written] : [[0, 0]];
  }

  has(n: number): boolean {
    return (this.#ranges[this.#indexOf(n)] as HandledRange)[1] >= n;
  }

  /** M2: whether a job may be handled now. */
  async hasRoomFor(n: number): Promise<boolean> {
    const { maxRanges = MAX_RANGES, jobsAfter } = this.#parts;
    if (this.has(n) || this.#ranges.length < maxRanges) return true;
    const [, end] = this.#ranges[this.#indexOf(n)] as HandledRange;
    const [next] = await jobsAfter(end, 1);
    return next?.n === n;
  }

  /** All jobs that have ended and were not handled, the oldest first. */
  async *unhandled(): AsyncGenerator<TaggedJob> {
    let after = (this.#ranges[0] as HandledRange)[1];
    for (;;) {
      const page = await this.#parts.jobsAfter(after, PAGE);
      for (const job of page) if (job.isEnded && !this.has(job.n)) yield job;
      const last = page.at(-1);
      if (!last || page.length < PAGE) return;
      after = last.n;
    }
  }

  /** Called after a job was handled (M1); settles when that is on stable storage. */
  async add(n: number): Promise<void> {
    // A job that was queued again by an operator has ended a second time.
    if (this.has(n)) return;
    this.#ranges.splice(this.#indexOf(n) + 1, 0, [n, n]);
    this.#lowest = Math.min(this.#lowest, n);
    const { maxRanges = MAX_RANGES, write } = this.#parts;
    if (++this.#added >= JOIN_EVERY || this.#ranges.length >= maxRanges) await this.#join();
    await write([...this.#ranges]);
  }

  /**
   * Joins ranges from the one before the lowest new number on. Jobs within a range are skipped; ranges whose jobs the
   * history has forgotten are dropped.
   */
  async #join(): Promise<void> {
    const first = this.#indexOf(this.#lowest - 1);
    const joined = this.#ranges.slice(0, first + 1);
    let [, after] = joined.at(-1) as HandledRange;
    let isNext = true;
    for (;;) {
      const page = await this.#parts.jobsAfter(after, PAGE);
      for (const { n } of page) {
        if (n <= after) continue;
        const [from, to] = this.#ranges[this.#indexOf(n)] as HandledRange;
        const isHandled = to >= n;
        if (isHandled && isNext) joined.push([(joined.pop() as HandledRange)[0], to]);
        else if (isHandled) joined.push([from, to]);
        isNext = isHandled;
        after = isHandled ? to : n;
      }
      if (page.length < PAGE || after >= (this.#ranges.at(-1) as HandledRange)[1]) break;
    }
    this.#ranges = joined;
    this.#added = 0;
    this.#lowest = Number.POSITIVE_INFINITY;
  }

  /** The place of the last range that begins at or before `n`. */
  #indexOf(n: number): number {
    let [low, high] = [0, this.#ranges.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#ranges[middle] as HandledRange)[0] <= n) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
