/**
 * Remembers which ended jobs of a module were handled, in a small file. Jobs end in another order than that of their
 * admission: `below` is the admission number up to which everything was handled, `above` are handled jobs behind it.
 *
 * M1  A number is added after its job was handled, never before: after a crash in between the job is handled again.
 * M2  `above` has at most MAX_ABOVE numbers; then nothing more is handled until the oldest open job has ended.
 */
import { dirname } from 'node:path';
import type { Env } from '../../kit/env/env.ts';
import { RecordFile, readRecord } from '../../kit/record-file.ts';
import type { TaggedJob } from '../../runtime/tagged-jobs.ts';

interface MarkRecord {
  readonly v: 1;
  readonly below: number;
  readonly above: readonly number[];
}

const isMarkRecord = (value: unknown): value is MarkRecord => {
  const { v, below, above } = (value ?? {}) as Partial<MarkRecord>;
  return v === 1 && Number.isSafeInteger(below) && Array.isArray(above) && above.every(Number.isSafeInteger);
};

export const MAX_ABOVE = 10_000;
/** After this many handled jobs `below` is moved on, so that the file stays small. */
const COMPACT_EVERY = 256;
const PAGE = 500;

/** The jobs of the module after an admission number, the oldest first. */
export type JobsAfter = (n: number, limit: number) => Promise<readonly TaggedJob[]>;

export class HandledMark {
  readonly #file: RecordFile<MarkRecord>;
  readonly #jobsAfter: JobsAfter;
  readonly #above: Set<number>;
  #below: number;
  #added = 0;

  private constructor(file: RecordFile<MarkRecord>, jobsAfter: JobsAfter) {
    this.#file = file;
    this.#jobsAfter = jobsAfter;
    this.#below = file.value.below;
    this.#above = new Set(file.value.above);
  }

  static async open(env: Env, path: string, jobsAfter: JobsAfter): Promise<HandledMark> {
    await env.disk.makeFolder(dirname(path));
    const known = await readRecord(env.disk, path, isMarkRecord);
    return new HandledMark(new RecordFile(env, path, known ?? { v: 1, below: 0, above: [] }), jobsAfter);
  }

  has(n: number): boolean {
    return n <= this.#below || this.#above.has(n);
  }

  get isFull(): boolean {
    return this.#above.size >= MAX_ABOVE;
  }

  /** All jobs after the mark that have ended and were not handled, the oldest first. */
  async *unhandled(): AsyncGenerator<TaggedJob> {
    let after = this.#below;
    for (;;) {
      const page = await this.#jobsAfter(after, PAGE);
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
    this.#above.add(n);
    if (++this.#added >= COMPACT_EVERY) await this.compact();
    await this.#file.keep({ below: this.#below, above: [...this.#above] });
  }

  /** Moves `below` over all jobs at the front that were handled; the next `add` writes it. */
  async compact(): Promise<void> {
    this.#added = 0;
    for (;;) {
      const page = await this.#jobsAfter(this.#below, PAGE);
      const open = page.findIndex(({ n, isEnded }) => !isEnded || !this.has(n));
      const handled = open < 0 ? page : page.slice(0, open);
      this.#below = handled.at(-1)?.n ?? this.#below;
      if (open >= 0 || page.length < PAGE) break;
    }
    for (const n of this.#above) if (n <= this.#below) this.#above.delete(n);
  }
}
