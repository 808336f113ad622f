/** The running jobs of one backend by class: their number and mean start time, kept as sums. */
import type { JobClass } from '../../model/records.ts';

interface Sum {
  jobs: number;
  /** The sum of the start times. */
  starts: number;
}

export class Running {
  readonly #sums: Readonly<Record<JobClass, Sum>> = {
    interactive: { jobs: 0, starts: 0 },
    batch: { jobs: 0, starts: 0 },
  };

  enter(jobClass: JobClass, at: number): void {
    const sum = this.#sums[jobClass];
    sum.jobs++;
    sum.starts += at;
  }

  /** `at` must be the value given to `enter`. */
  leave(jobClass: JobClass, at: number): void {
    const sum = this.#sums[jobClass];
    if (sum.jobs === 0) return;
    sum.jobs--;
    sum.starts = sum.jobs === 0 ? 0 : sum.starts - at;
  }

  jobs(jobClass: JobClass): number {
    return this.#sums[jobClass].jobs;
  }

  /** The mean time that the running jobs have been running; 0 if there are none. */
  elapsedMs(jobClass: JobClass, now: number): number {
    const { jobs, starts } = this.#sums[jobClass];
    return jobs === 0 ? 0 : Math.max(0, now - starts / jobs);
  }
}
