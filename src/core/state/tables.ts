/** The records that belong to no job, each kind by its id. Only state.ts writes to them. */

import type { ModelRecord, SmallKind, SmallKinds, WorkerRecord } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import type { WaitStateRecord } from '../../model/waiting.ts';
import type { WorkerPoolRecord } from '../../model/worker-pool-record.ts';
import { RecentIds } from './recent-ids.ts';

export class Table<T> {
  protected readonly records = new Map<string, T>();

  get size(): number {
    return this.records.size;
  }

  get(id: string): T | undefined {
    return this.records.get(id);
  }

  entries(): IterableIterator<[string, T]> {
    return this.records.entries();
  }

  values(): IterableIterator<T> {
    return this.records.values();
  }

  set(id: string, record: T | null): void {
    if (record === null) this.records.delete(id);
    else this.records.set(id, record);
  }
}

/** A table whose records are in the order of their last write, oldest first. */
export class RecentTable<T> extends Table<T> {
  override set(id: string, record: T | null): void {
    this.records.delete(id);
    super.set(id, record);
  }

  /** Restores the order after a restart: stores return records in any order. */
  sort(order: (a: T, b: T) => number): void {
    const sorted = [...this.records].sort(([, a], [, b]) => order(a, b));
    this.records.clear();
    for (const [id, record] of sorted) this.records.set(id, record);
  }
}

/** Sessions that have left the table and are remembered by name. */
const MAX_LEFT = 10_000;

/** The sessions, in the order of their last change. */
export class SessionTable extends RecentTable<SessionRecord> {
  readonly #byTenant = new RecentIds();
  /** How many sessions have left this table so far: what was found outside of it before may be out of date since. */
  left = 0;
  /** The last sessions that have left, with the value of `left` then; the oldest first. */
  readonly #leftAt = new Map<string, number>();

  override set(id: string, record: SessionRecord | null): void {
    const former = this.records.get(id);
    super.set(id, record);
    if (former) this.#byTenant.delete(former.tenant, id);
    if (record) this.#byTenant.use(record.tenant, id);
    else this.#noteLeft(id);
  }

  /** Whether this session has left since `left` had this value; true also if that is too long ago to be known. */
  mayHaveLeftSince(id: string, left: number): boolean {
    const at = this.#leftAt.get(id);
    return at === undefined ? this.left - left > MAX_LEFT : at > left;
  }

  #noteLeft(id: string): void {
    this.left++;
    this.#leftAt.delete(id);
    this.#leftAt.set(id, this.left);
    const [oldest] = this.#leftAt.keys();
    if (this.#leftAt.size > MAX_LEFT && oldest !== undefined) this.#leftAt.delete(oldest);
  }

  override sort(order: (a: SessionRecord, b: SessionRecord) => number): void {
    super.sort(order);
    this.#byTenant.clear();
    for (const [id, { tenant }] of this.records) this.#byTenant.use(tenant, id);
  }

  /** The ids of the least recently used sessions of the tenant that has the most; those are the first to give way. */
  *leastUsed(limit: number): Generator<string> {
    let count = 0;
    for (const id of this.#byTenant.ofLargest()) {
      if (count++ === limit) return;
      yield id;
    }
  }

  *ofTenant(tenant: string): Generator<SessionRecord> {
    for (const id of this.#byTenant.of(tenant)) yield this.records.get(id) as SessionRecord;
  }
}

/** The states of waits, in the order in which they were written. */
export class WaitStateTable extends RecentTable<WaitStateRecord> {
  /** The characters of all of them. */
  chars = 0;

  override set(id: string, record: WaitStateRecord | null): void {
    this.chars += (record?.text.length ?? 0) - (this.records.get(id)?.text.length ?? 0);
    super.set(id, record);
  }
}

/** The models, found by id, by ref and by alias. */
export class Catalog extends Table<ModelRecord> {
  readonly #byName = new Map<string, ModelRecord>();

  override set(id: string, record: ModelRecord | null): void {
    const former = this.records.get(id);
    super.set(id, record);
    if (former) for (const name of namesOf(former)) this.#byName.delete(name);
    if (record) for (const name of namesOf(record)) this.#byName.set(name, record);
    // A removed name may also be a name of another model, which must be found by it from now on.
    if (former) for (const other of this.records.values()) this.#index(other);
  }

  find(name: string): ModelRecord | undefined {
    return this.records.get(name) ?? this.#byName.get(name);
  }

  #index(record: ModelRecord): void {
    for (const name of namesOf(record)) if (!this.#byName.has(name)) this.#byName.set(name, record);
  }
}

const namesOf = ({ id, ref, aliases }: ModelRecord): readonly string[] => [id, ref, ...aliases];

/** The workers that should exist, indexed by model, by device, by pool and by worker pool. */
export class WorkerTable extends Table<WorkerRecord> {
  readonly #byModel = new Index();
  readonly #byDevice = new Index();
  readonly #byPool = new Index();
  readonly #byWorkerPool = new Index();

  override set(id: string, record: WorkerRecord | null): void {
    const former = this.records.get(id);
    super.set(id, record);
    if (former?.workerPool !== record?.workerPool) {
      if (former?.workerPool !== undefined) this.#byWorkerPool.remove(former.workerPool, id);
      if (record?.workerPool !== undefined) this.#byWorkerPool.add(record.workerPool, id);
    }
    if (former && !record) {
      this.#byModel.remove(former.modelRef, id);
      this.#byDevice.remove(deviceName(former.pool, former.device), id);
      this.#byPool.remove(former.pool, id);
    }
    // Neither the model nor the device of a worker ever changes.
    if (!record || former) return;
    this.#byModel.add(record.modelRef, id);
    this.#byDevice.add(deviceName(record.pool, record.device), id);
    this.#byPool.add(record.pool, id);
  }

  /** The workers with this model. */
  of(modelRef: string): [string, WorkerRecord][] {
    return this.#found(this.#byModel.get(modelRef));
  }

  on(pool: string, device: number): [string, WorkerRecord][] {
    return this.#found(this.#byDevice.get(deviceName(pool, device)));
  }

  inPool(pool: string): [string, WorkerRecord][] {
    return this.#found(this.#byPool.get(pool));
  }

  countIn(pool: string): number {
    return this.#byPool.count(pool);
  }

  /** The workers that are kept for a worker pool, with those that it has given up and that are not gone yet. */
  keptFor(workerPool: string): [string, WorkerRecord][] {
    return this.#found(this.#byWorkerPool.get(workerPool));
  }

  #found(ids: Iterable<string>): [string, WorkerRecord][] {
    return Array.from(ids, (id) => [id, this.records.get(id) as WorkerRecord]);
  }
}

export const deviceName = (pool: string, device: number): string => `${pool}#${device}`;

export class Index {
  readonly #ids = new Map<string, Set<string>>();

  get(name: string): Iterable<string> {
    return this.#ids.get(name) ?? NONE;
  }

  count(name: string): number {
    return this.#ids.get(name)?.size ?? 0;
  }

  add(name: string, id: string): void {
    const ids = this.#ids.get(name);
    if (ids) ids.add(id);
    else this.#ids.set(name, new Set([id]));
  }

  remove(name: string, id: string): void {
    const ids = this.#ids.get(name);
    ids?.delete(id);
    if (ids?.size === 0) this.#ids.delete(name);
  }
}

const NONE: readonly string[] = [];

/** The worker pools, with sums of those whose workers programs outside start. */
export class WorkerPoolTable extends Table<WorkerPoolRecord> {
  readonly outside = { pools: 0, desired: 0, spawned: 0 };

  override set(id: string, record: WorkerPoolRecord | null): void {
    this.#count(this.records.get(id), -1);
    super.set(id, record);
    this.#count(record ?? undefined, 1);
  }

  #count(record: WorkerPoolRecord | undefined, by: 1 | -1): void {
    if (record?.provisioner !== 'external') return;
    this.outside.pools += by;
    this.outside.desired += by * record.desired;
    this.outside.spawned += by * record.spawned;
  }
}

export type Tables = { readonly [K in SmallKind]: Table<SmallKinds[K]> } & {
  readonly worker_pool: WorkerPoolTable;
};

/** The kinds whose tables have indexes of their own. */
type IndexedKind = 'model' | 'worker' | 'session' | 'batch' | 'wait_state' | 'consumer';

export const plainTables = (): Omit<Tables, IndexedKind> => ({
  pool: new Table(),
  demand: new Table(),
  limits: new Table(),
  spent: new Table(),
  prices: new Table(),
  route: new Table(),
  failed_dependency: new Table(),
  erasure: new Table(),
  schedule: new Table(),
  module: new Table(),
  governance: new Table(),
  policy: new Table(),
  worker_pool: new WorkerPoolTable(),
  mcp_pin: new Table(),
  mcp_task: new Table(),
});
