/** The batches, in the order of their last change, with their jobs in memory. */
import type { BatchRecord } from '../../model/batch-record.ts';
import { scoped } from '../../model/records.ts';
import { isTerminal, type JobState } from '../../model/states.ts';
import { AdmissionOrder } from './admission-order.ts';
import type { JobEntry } from './job-entry.ts';
import { RecentIds } from './recent-ids.ts';
import { RecentTable } from './tables.ts';

/** The jobs of a batch that are in memory. */
export class BatchJobs {
  /** The jobs that have not ended, by state. */
  readonly counts: Partial<Record<JobState, number>> = {};
  live = 0;
  /** The job that was admitted last, while it is live: no other one of the batch is further behind in its lane. */
  newest: JobEntry | undefined;
  readonly order: AdmissionOrder;
  #jobs = 0;

  constructor(isHere: (entry: JobEntry) => boolean) {
    this.order = new AdmissionOrder(isHere);
  }

  get isEmpty(): boolean {
    return this.#jobs === 0;
  }

  count(entry: JobEntry, from: JobState | undefined, to: JobState | undefined): void {
    if (from === undefined) this.order.add(entry, ++this.#jobs);
    if (to === undefined) this.#jobs--;
    if (isLive(from)) this.#add(from, -1);
    if (isLive(to)) this.#add(to, 1);
    if (!isLive(to)) this.newest = this.newest === entry ? undefined : this.newest;
    else if (!this.newest || this.newest.ask.n < entry.ask.n) this.newest = entry;
  }

  #add(state: JobState, by: 1 | -1): void {
    this.counts[state] = (this.counts[state] ?? 0) + by;
    this.live += by;
  }
}

export class BatchTable extends RecentTable<BatchRecord> {
  readonly #jobs = new Map<string, BatchJobs>();
  readonly #byTenant = new RecentIds();
  readonly #isHere: (entry: JobEntry) => boolean;

  /** `isHere` says whether a job is in memory. */
  constructor(isHere: (entry: JobEntry) => boolean) {
    super();
    this.#isHere = isHere;
  }

  override set(name: string, record: BatchRecord | null): void {
    const former = this.records.get(name);
    super.set(name, record);
    if (record) this.#byTenant.use(record.tenant, name);
    else if (former) this.#byTenant.delete(former.tenant, name);
  }

  override sort(order: (a: BatchRecord, b: BatchRecord) => number): void {
    super.sort(order);
    this.#byTenant.clear();
    for (const [name, { tenant }] of this.records) this.#byTenant.use(tenant, name);
  }

  /** The batches of the tenant that has the most, the one that was changed the longest ago first. */
  ofLargestTenant(): Iterable<string> {
    return this.#byTenant.ofLargest();
  }

  of(tenant: string, id: string): BatchRecord | undefined {
    return this.records.get(scoped(tenant, id));
  }

  /** Undefined if no job of the batch is in memory. */
  jobs(tenant: string, id: string): BatchJobs | undefined {
    return this.#jobs.get(scoped(tenant, id));
  }

  /** Whether a job of the batch has not ended. */
  isLive(tenant: string, id: string): boolean {
    return (this.jobs(tenant, id)?.live ?? 0) > 0;
  }

  /** Counts a job that has come into memory, has moved, or leaves memory; undefined stands for outside. */
  count(entry: JobEntry, from: JobState | undefined, to: JobState | undefined): void {
    const { batch } = entry.ask.spec;
    if (batch === undefined) return;
    const name = scoped(entry.ask.tenant, batch);
    let jobs = this.#jobs.get(name);
    if (!jobs) {
      jobs = new BatchJobs(this.#isHere);
      this.#jobs.set(name, jobs);
    }
    jobs.count(entry, from, to);
    if (jobs.isEmpty) this.#jobs.delete(name);
  }
}

const isLive = (state: JobState | undefined): state is JobState => state !== undefined && !isTerminal(state);
