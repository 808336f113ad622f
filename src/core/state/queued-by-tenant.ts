/** The jobs in one state, queued or waiting, of each tenant but the default one, whose share of the queue is not limited. */
import { type AskRecord, DEFAULT_TENANT } from '../../model/records.ts';

export interface QueuedJobs {
  readonly jobs: number;
  readonly bytes: number;
}

const NONE: QueuedJobs = { jobs: 0, bytes: 0 };

export class QueuedByTenant {
  readonly #queued = new Map<string, QueuedJobs>();

  of(tenant: string): QueuedJobs {
    return this.#queued.get(tenant) ?? NONE;
  }

  /** `by` is 1 for a job that has been queued, -1 for one that no longer is. */
  count({ tenant, payloadBytes }: AskRecord, by: 1 | -1): void {
    if (tenant === DEFAULT_TENANT) return;
    const { jobs, bytes } = this.of(tenant);
    if (jobs + by === 0) this.#queued.delete(tenant);
    else this.#queued.set(tenant, { jobs: jobs + by, bytes: bytes + by * payloadBytes });
  }
}
