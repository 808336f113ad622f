/** The callers that wait for the end of a job. */
import type { JobView } from '../model/http/jobs.ts';

interface JobWaiter {
  readonly resolve: (job: JobView) => void;
  readonly reject: (error: Error) => void;
}

export class Waiters {
  readonly #byJob = new Map<string, JobWaiter[]>();

  wait(uid: string): Promise<JobView> {
    return new Promise((resolve, reject) => {
      const others = this.#byJob.get(uid);
      if (others) others.push({ resolve, reject });
      else this.#byJob.set(uid, [{ resolve, reject }]);
    });
  }

  has(uid: string): boolean {
    return this.#byJob.has(uid);
  }

  resolve(uid: string, job: JobView): void {
    const waiting = this.#byJob.get(uid) ?? [];
    this.#byJob.delete(uid);
    for (const { resolve } of waiting) resolve(job);
  }

  reject(uid: string, error: Error): void {
    const waiting = this.#byJob.get(uid) ?? [];
    this.#byJob.delete(uid);
    for (const { reject } of waiting) reject(error);
  }

  rejectAll(error: Error): void {
    for (const waiting of this.#byJob.values()) for (const { reject } of waiting) reject(error);
    this.#byJob.clear();
  }
}
