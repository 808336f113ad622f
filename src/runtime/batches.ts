/** Batches: creates, shows and lists them, and reads the results of their jobs. */
import type { Engine } from '../core/engine/engine.ts';
import { hasTags } from '../core/ports/store.ts';
import { predictEndMs } from '../core/scheduling/predict-batch.ts';
import { startHints } from '../core/workers/forecast.ts';
import type { Env } from '../kit/env/env.ts';
import type { BatchRecord } from '../model/batch-record.ts';
import { OrchdError } from '../model/errors.ts';
import type { BatchView } from '../model/http/batches.ts';
import { DEFAULT_TENANT, type Labels } from '../model/records.ts';
import { JOB_STATES, type JobState } from '../model/states.ts';
import type { BrainClock } from './brain-clock.ts';
import type { JobWithBodies } from './job-text.ts';
import { filterOf } from './listing.ts';
import type { Loop } from './loop.ts';
import type { Reads } from './reads.ts';

export interface BatchesParts {
  readonly env: Pick<Env, 'random'>;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly clock: BrainClock;
  readonly reads: Reads;
  /** Throws if the brain does not run. */
  readonly assertOpen: () => void;
}

export interface NewBatch {
  readonly batch_id?: string | undefined;
  readonly name?: string | undefined;
  readonly tags?: Labels | undefined;
}

export interface ResultsRequest {
  /** States separated by commas; all jobs by default. */
  readonly state?: string | undefined;
  /** The admission number behind which to go on. */
  readonly after?: number | undefined;
  readonly include?: 'payload' | undefined;
}

/** A job of a batch; `n` is its admission number. */
export interface BatchResult extends JobWithBodies {
  readonly n: number;
}

/** Jobs that are read in one turn of the event loop. */
const PAGE_JOBS = 100;
const DEFAULT_LIMIT = 100;

type Counts = Record<JobState, number>;

export class Batches {
  readonly #parts: BatchesParts;

  constructor(parts: BatchesParts) {
    this.#parts = parts;
  }

  /** Creates a batch, or gives an existing one another name and other tags. */
  async put({ batch_id: id, name, tags }: NewBatch, tenant = DEFAULT_TENANT): Promise<BatchView> {
    const { loop, env, assertOpen } = this.#parts;
    assertOpen();
    const reply = await loop.ask({
      type: 'batch',
      request: { tenant, id: id ?? env.random.hex(8), name, tags },
    });
    if (reply instanceof OrchdError) throw reply;
    return this.#viewOf(reply);
  }

  async get(id: string, tenant = DEFAULT_TENANT): Promise<BatchView> {
    return this.#whenDurable(() => this.#viewOf(this.#find(tenant, id)));
  }

  /** Last changed first. */
  async list(tenant = DEFAULT_TENANT, limit = DEFAULT_LIMIT, tags: Labels = {}): Promise<BatchView[]> {
    return this.#whenDurable(() => {
      const all = [...this.#parts.engine.state.batches.values()];
      const found = all.filter((batch) => batch.tenant === tenant && hasTags(batch.tags, tags));
      return found
        .slice(-limit)
        .toReversed()
        .map((batch) => this.#viewOf(batch));
    });
  }

  /** The jobs of a batch with their bodies, in the order of their admission, page by page. */
  async *results(
    id: string,
    tenant: string,
    { state, after, include }: ResultsRequest,
  ): AsyncGenerator<readonly BatchResult[]> {
    const { reads } = this.#parts;
    const filter = filterOf({ batch: id, ...(state !== undefined && { state }) }, tenant);
    const query = { ...filter, limit: PAGE_JOBS, order: 'oldest first' } as const;
    for (let last = after ?? -1; ; ) {
      this.#parts.assertOpen();
      const found = await reads.find({ ...query, after: last });
      yield await Promise.all(
        found.map(async (job) => ({ n: job.ask.n, ...(await reads.bodiesOf(job, include)) })),
      );
      if (found.length < PAGE_JOBS) return;
      last = found.at(-1)?.ask.n ?? last;
    }
  }

  #find(tenant: string, id: string): BatchRecord {
    const record = this.#parts.engine.state.batches.of(tenant, id);
    if (!record) throw new OrchdError('NOT_FOUND', `there is no batch "${id}"`);
    return record;
  }

  #viewOf(record: BatchRecord): BatchView {
    const { engine, clock } = this.#parts;
    const { tenant, id, name, tags, createdAt, at, ended } = record;
    const jobs = engine.state.batches.jobs(tenant, id);
    const counts = { ...NONE, ...jobs?.counts, ...ended };
    const live = jobs?.live ?? 0;
    const total = live + ended.succeeded + ended.dead + ended.cancelled;
    const hints = jobs?.newest ? startHints(engine.state, jobs.newest.ask) : {};
    const predicted = jobs && predictEndMs(jobs, clock.now(), hints);
    return {
      batch_id: id,
      ...(name !== undefined && { name }),
      ...(tags !== undefined && { tags }),
      created_at: createdAt,
      jobs: total,
      live_jobs: live,
      counts,
      ...(live === 0 && total > 0 && { ended_at: at }),
      ...(predicted !== undefined && { predicted_end_ms: predicted }),
    };
  }

  async #whenDurable<T>(read: () => T): Promise<T> {
    const { engine, loop, assertOpen } = this.#parts;
    assertOpen();
    const value = read();
    await loop.durable(engine.state.seq);
    return value;
  }
}

const NONE = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Counts;
