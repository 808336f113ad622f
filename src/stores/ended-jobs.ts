/** A history in memory with the queries of HistoryReads; shared by the memory store and by the journal's MemoryHistory (for simulations). */
import {
  type HistoryQuery,
  isAskedFor,
  type JobBelow,
  type JobBundle,
  type KeptJob,
  type PurgePlan,
} from '../core/ports/store.ts';
import { uidOf } from '../model/records.ts';

/**
 * True where the caller chose the job's id (`ask.hash` is set only then). Such an id may be submitted again after a
 * purge, and its attempt numbers must then continue above those of the purged job.
 */
export const callerChoseId = ({ ask }: JobBundle): boolean => ask.hash !== undefined;

/** The uids of a job's ancestors. */
export const ancestorsOf = ({ ask: { tenant, ancestors = [] } }: Pick<JobBundle, 'ask'>): string[] =>
  ancestors.map((id) => uidOf(tenant, id));

export class EndedJobs {
  readonly #jobs = new Map<string, JobBundle>();
  /** The jobs that a purge has passed over, with the instant from which their time counts. */
  readonly #keptFrom = new Map<string, number>();

  put(bundle: JobBundle): void {
    this.#keptFrom.delete(bundle.uid);
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

  planPurge(endedBefore: number, limit: number): PurgePlan {
    const purgeable = this.#purgeable(endedBefore, limit);
    const attempts = purgeable.filter(callerChoseId).map(({ job }) => job.attempt);
    const below = purgeable.flatMap((bundle) => this.#below(bundle));
    return { jobs: purgeable.length, attemptFloor: Math.max(0, ...attempts), below };
  }

  purge(endedBefore: number, limit: number, kept: readonly KeptJob[] = []): void {
    for (const { uid, from } of kept) this.#keptFrom.set(uid, from);
    for (const { uid } of this.#purgeable(endedBefore, limit - kept.length)) {
      this.#jobs.delete(uid);
      this.#keptFrom.delete(uid);
    }
  }

  #below(bundle: JobBundle): JobBelow[] {
    const ancestors = ancestorsOf(bundle);
    const [root] = ancestors;
    if (root === undefined) return [];
    return [{ uid: bundle.uid, ancestors, rootEndedAt: this.#jobs.get(root)?.job.endedAt }];
  }

  #purgeable(endedBefore: number, limit: number): JobBundle[] {
    const keptFrom = ({ uid, job }: JobBundle): number => this.#keptFrom.get(uid) ?? job.endedAt ?? 0;
    const ended = [...this.#jobs.values()].filter((bundle) => keptFrom(bundle) < endedBefore);
    return ended.sort((a, b) => a.ask.n - b.ask.n).slice(0, limit);
  }
}
