/** Ended jobs in memory, as every history shows them: what the stores without an index of their own share. */
import { type HistoryQuery, isAskedFor, type JobBundle, type PurgeResult } from '../core/ports/store.ts';

/** An id that its caller chose may come back after a purge: its attempts must not be counted anew then. */
export const callerChoseId = ({ ask }: JobBundle): boolean => ask.hash !== undefined;

export class EndedJobs {
  readonly #jobs = new Map<string, JobBundle>();

  put(bundle: JobBundle): void {
    this.#jobs.set(bundle.uid, bundle);
  }

  get(uid: string): JobBundle | undefined {
    return this.#jobs.get(uid);
  }

  all(): Iterable<JobBundle> {
    return this.#jobs.values();
  }

  list(query: HistoryQuery): JobBundle[] {
    const found = [...this.#jobs.values()].filter(({ ask, job }) => isAskedFor(query, ask, job));
    return found.sort((a, b) => b.ask.n - a.ask.n).slice(0, query.limit);
  }

  /** Of all tenants, those admitted after this place, oldest first. */
  after(n: number, limit: number): JobBundle[] {
    const later = [...this.#jobs.values()].filter(({ ask }) => ask.n > n);
    return later.sort((a, b) => a.ask.n - b.ask.n).slice(0, limit);
  }

  count(): number {
    return this.#jobs.size;
  }

  planPurge(endedBefore: number, limit: number): PurgeResult {
    const doomed = this.#doomed(endedBefore, limit);
    const attempts = doomed.filter(callerChoseId).map(({ job }) => job.attempt);
    return { jobs: doomed.length, attemptFloor: Math.max(0, ...attempts) };
  }

  purge(endedBefore: number, limit: number): void {
    for (const { uid } of this.#doomed(endedBefore, limit)) this.#jobs.delete(uid);
  }

  #doomed(endedBefore: number, limit: number): JobBundle[] {
    const ended = [...this.#jobs.values()].filter(({ job }) => (job.endedAt ?? 0) < endedBefore);
    return ended.sort((a, b) => a.ask.n - b.ask.n).slice(0, limit);
  }
}
