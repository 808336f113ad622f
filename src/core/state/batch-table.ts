/** The batches, in the order of their last change, with counts of their jobs that have not ended. */
import type { BatchRecord } from '../../model/batch-record.ts';
import { scoped } from '../../model/records.ts';
import { isTerminal, type JobState } from '../../model/states.ts';
import type { JobEntry } from './job-entry.ts';
import { RecentTable } from './tables.ts';

/** The live jobs of a batch. */
export interface LiveBatch {
  readonly counts: Readonly<Partial<Record<JobState, number>>>;
  readonly jobs: number;
  /** The job that was admitted last, while it is live: no other one of the batch is further behind in its lane. */
  readonly newest: JobEntry | undefined;
}

type MutableBatch = {
  counts: Partial<Record<JobState, number>>;
  jobs: number;
  newest: JobEntry | undefined;
};

export class BatchTable extends RecentTable<BatchRecord> {
  readonly #live = new Map<string, MutableBatch>();

  of(tenant: string, id: string): BatchRecord | undefined {
    return this.records.get(scoped(tenant, id));
  }

  /** Undefined if all jobs of the batch have ended. */
  live(tenant: string, id: string): LiveBatch | undefined {
    return this.#live.get(scoped(tenant, id));
  }

  /** Counts a job that has come, has moved or is forgotten; undefined stands for outside. */
  count(entry: JobEntry, from: JobState | undefined, to: JobState | undefined): void {
    const { ask } = entry;
    if (ask.spec.batch === undefined) return;
    const name = scoped(ask.tenant, ask.spec.batch);
    const live = this.#live.get(name) ?? { counts: {}, jobs: 0, newest: undefined };
    if (isLive(from)) add(live, from, -1);
    if (isLive(to)) add(live, to, 1);
    if (isLive(to)) live.newest = laterOf(live.newest, entry);
    else if (live.newest === entry) live.newest = undefined;
    if (live.jobs === 0) this.#live.delete(name);
    else this.#live.set(name, live);
  }
}

const isLive = (state: JobState | undefined): state is JobState => state !== undefined && !isTerminal(state);

function add(live: MutableBatch, state: JobState, by: 1 | -1): void {
  live.counts[state] = (live.counts[state] ?? 0) + by;
  live.jobs += by;
}

const laterOf = (a: JobEntry | undefined, b: JobEntry): JobEntry => (a && a.ask.n > b.ask.n ? a : b);
