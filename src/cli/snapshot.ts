/** Reads the status of a brain: two or three requests, of which the one that may read the disk is made less often. */
import { ClientError, type OrchdClient } from '../client/client.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { PoolView } from '../model/http/pools.ts';
import type { Status } from '../model/http/status.ts';

export interface Snapshot {
  readonly status: Status;
  /** Undefined for callers of another tenant than the default, who may not see the pools. */
  readonly pools: readonly PoolView[] | undefined;
  /** The newest dead jobs. */
  readonly dead: { readonly jobs: readonly JobView[]; readonly more: boolean };
}

const DEAD_SHOWN = 5;
/** The list of dead jobs is read from the store: while the status is watched, it may be this old. */
const DEAD_EVERY_MS = 10_000;

export class SnapshotReader {
  readonly #client: OrchdClient;
  readonly #now: () => number;
  #dead: Snapshot['dead'] | undefined;
  #deadAt = 0;
  #mayReadPools = true;

  constructor(client: OrchdClient, now: () => number = () => performance.now()) {
    this.#client = client;
    this.#now = now;
  }

  async read(): Promise<Snapshot> {
    const [status, pools, dead] = await Promise.all([this.#client.status(), this.#pools(), this.#deadJobs()]);
    return { status, pools, dead };
  }

  async #pools(): Promise<Snapshot['pools']> {
    if (!this.#mayReadPools) return undefined;
    try {
      return await this.#client.pools();
    } catch (error) {
      if (!(error instanceof ClientError) || error.status !== 403) throw error;
      this.#mayReadPools = false;
      return undefined;
    }
  }

  async #deadJobs(): Promise<Snapshot['dead']> {
    if (this.#dead && this.#now() - this.#deadAt < DEAD_EVERY_MS) return this.#dead;
    const { jobs, cursor } = await this.#client.list({ state: 'dead', limit: DEAD_SHOWN });
    this.#deadAt = this.#now();
    this.#dead = { jobs, more: cursor !== undefined };
    return this.#dead;
  }
}

/** What of a snapshot is a change: everything but clocks and counters that move by themselves. */
export function changeKey({ status, pools, dead }: Snapshot): string {
  const { now: _, uptime_ms: __, totals: ___, ...rest } = status;
  const still = pools?.map(({ heard_at: _at, gpus, ...pool }) => ({
    ...pool,
    gpus: gpus.map(({ available_vram: _free, ...gpu }) => gpu),
  }));
  return JSON.stringify([rest, still, dead.jobs.map(({ job_id }) => job_id), dead.more]);
}

interface Sample {
  readonly epoch: number | null;
  readonly at: number;
  readonly done: number;
}

/** Jobs that end per second, over the last samples of a status that is watched. */
export class EndRate {
  readonly #samples: Sample[] = [];

  /** Undefined until two samples of the same process were seen. */
  add({ uptime_ms: at, totals, leader: { epoch } }: Status): number | undefined {
    if (!totals) return undefined;
    const last = this.#samples.at(-1);
    // Another process has counters of its own.
    if (last && epoch !== last.epoch) this.#samples.length = 0;
    this.#samples.push({ epoch, at, done: totals.succeeded + totals.cancelled + totals.dead });
    while (this.#samples.length > 2 && at - (this.#samples[0] as Sample).at > RATE_WINDOW_MS)
      this.#samples.shift();
    const first = this.#samples[0] as Sample;
    const newest = this.#samples.at(-1) as Sample;
    return newest.at > first.at ? ((newest.done - first.done) * 1000) / (newest.at - first.at) : undefined;
  }
}

const RATE_WINDOW_MS = 10_000;
