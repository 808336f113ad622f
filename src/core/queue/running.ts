/** What runs at one backend, by class: how many, and since when on average. Sums alone, whoever comes and goes. */
import type { JobClass } from '../../model/records.ts';

interface Sum {
  jobs: number;
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

  /** `at` as it was given to `enter`. */
  leave(jobClass: JobClass, at: number): void {
    const sum = this.#sums[jobClass];
    if (sum.jobs === 0) return;
    sum.jobs--;
    sum.starts = sum.jobs === 0 ? 0 : sum.starts - at;
  }

  jobs(jobClass: JobClass): number {
    return this.#sums[jobClass].jobs;
  }

  /** How long those that run have been running, on average; 0 where none does. */
  elapsedMs(jobClass: JobClass, now: number): number {
    const { jobs, starts } = this.#sums[jobClass];
    return jobs === 0 ? 0 : Math.max(0, now - starts / jobs);
  }
}
