/** What the brain says about the worker pools of a provisioner, and what it is told about them. */
import type { ConsumerApi } from '../../consumer/api.ts';
import type { WorkerPoolView } from '../../model/http/worker-pools.ts';
import type { Wish } from './size-plan.ts';

/** A count that has not changed is told again after so long: the row says that somebody looks after it. */
const TELL_MS = 10_000;

export interface BrainPoolsParts {
  readonly api: Pick<ConsumerApi, 'call'>;
  /** The worker pools to carry out; undefined: all whose workers a program outside starts. */
  readonly pools: readonly string[] | undefined;
  readonly monotonic: () => number;
  /** How many processes of a worker pool run. */
  readonly countOf: (pool: string) => number;
}

export class BrainPools {
  readonly #parts: BrainPoolsParts;
  /** Undefined before the first answer: until then nothing is started or ended. */
  #rows: ReadonlyMap<string, WorkerPoolView> | undefined;
  readonly #toldAt = new Map<string, number>();

  constructor(parts: BrainPoolsParts) {
    this.#parts = parts;
  }

  get isKnown(): boolean {
    return this.#rows !== undefined;
  }

  get rows(): readonly WorkerPoolView[] {
    return [...(this.#rows?.values() ?? [])];
  }

  row(pool: string): WorkerPoolView | undefined {
    return this.#rows?.get(pool);
  }

  /** Reads the rows. Returns the named worker pools that are not there. */
  async ask(): Promise<readonly string[]> {
    const { api, pools } = this.#parts;
    const answer = await api.call<{ readonly pools: readonly WorkerPoolView[] }>('GET', '/workers/wished');
    const mine = answer.pools.filter(({ pool_id: id }) => pools === undefined || pools.includes(id));
    this.#rows = new Map(mine.map((row) => [row.pool_id, row]));
    for (const pool of this.#toldAt.keys()) if (!this.#rows.has(pool)) this.#toldAt.delete(pool);
    return (pools ?? []).filter((pool) => !this.#rows?.has(pool));
  }

  /** Tells how many processes run, where the brain does not know it yet. */
  async tell(): Promise<void> {
    for (const row of this.rows) await this.#tell(row);
  }

  async #tell({ pool_id: pool, spawned_workers: told, status }: WorkerPoolView): Promise<void> {
    const { api, countOf, monotonic } = this.#parts;
    const count = countOf(pool);
    const isOver = status === 'stopped' || status === 'evicted';
    const isDue = !isOver && monotonic() - (this.#toldAt.get(pool) ?? Number.NEGATIVE_INFINITY) >= TELL_MS;
    if (count === told && !isDue) return;
    const body = { spawned_workers: count };
    const path = `/workers/pool/${encodeURIComponent(pool)}/heartbeat`;
    const row = await api.call<WorkerPoolView>('POST', path, { body });
    this.#toldAt.set(pool, monotonic());
    this.#rows = new Map(this.#rows).set(pool, row);
  }
}

/** What a row asks for. One that is not there is over: its processes may finish, for the brain may be another one. */
export function wishOf(row: WorkerPoolView | undefined): Wish {
  if (!row) return { is: 'keep', count: 0 };
  // Where it is `stopped` and something runs still, its grace time was over.
  if (row.status === 'evicted' || row.status === 'stopped' || row.grace_over) return { is: 'kill' };
  return { is: 'keep', count: row.wished_workers };
}
