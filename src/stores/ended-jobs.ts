/** A history in memory with the queries of HistoryReads; shared by the memory store and by the journal's MemoryHistory (for simulations). */
import { type HistoryQuery, isAskedFor, type JobBundle, type PurgeResult } from '../core/ports/store.ts';

/**
 * True where the caller chose the job's id (`ask.hash` is set only then). Such an id may be submitted again after a
 * purge, and its attempt numbers must then continue above those of the purged job.
 */
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
    const sign = query.order === 'oldest first' ? 1 : -1;
    return found.sort((a, b) => sign * (a.ask.n - b.ask.n)).slice(0, query.limit);
  }

  /** Jobs of all tenants whose uid is at least `from` and less than `below`, the highest uid first. */
  between(from: string, below: string, limit: number): JobBundle[] {
    const found = [...this.#jobs.values()].filter(({ uid }) => uid >= from && uid < below);
    return found.sort((a, b) => (a.uid < b.uid ? 1 : -1)).slice(0, limit);
  }

  /** Jobs of all tenants whose admission number is above `n`, oldest first. */
  after(n: number, limit: number): JobBundle[] {
    const later = [...this.#jobs.values()].filter(({ ask }) => ask.n > n);
    return later.sort((a, b) => a.ask.n - b.ask.n).slice(0, limit);
  }

  count(): number {
    return this.#jobs.size;
  }

  planPurge(endedBefore: number, limit: number): PurgeResult {
    const purgeable = this.#purgeable(endedBefore, limit);
    const attempts = purgeable.filter(callerChoseId).map(({ job }) => job.attempt);
    return { jobs: purgeable.length, attemptFloor: Math.max(0, ...attempts) };
  }

  purge(endedBefore: number, limit: number): void {
    for (const { uid } of this.#purgeable(endedBefore, limit)) this.#jobs.delete(uid);
  }

  #purgeable(endedBefore: number, limit: number): JobBundle[] {
    const ended = [...this.#jobs.values()].filter(({ job }) => (job.endedAt ?? 0) < endedBefore);
    return ended.sort((a, b) => a.ask.n - b.ask.n).slice(0, limit);
  }
}
