/**
 * The ceiling over all workers, `max_total_workers`: those of pool managers, and those that programs outside say that they
 * have started for worker pools.
 *
 * C1  No worker is ordered while as many are there, those that leave included. Workers of a pool that does not answer do
 *     not count: they may never come back.
 * C2  No busy worker is stopped because there are too many.
 */
import { isKept, type WorkerPoolRecord } from '../../model/worker-pool-record.ts';
import { workerBackend } from '../ports/pools.ts';
import type { EngineSettings } from '../settings.ts';
import type { EngineView } from '../turn.ts';
import { lastUse } from './evict.ts';
import { type DeviceWorker, isIdle, isLeaving } from './room.ts';

export interface SizeView extends Pick<EngineView, 'state'> {
  readonly settings: Pick<EngineSettings, 'pools'>;
}

/** Workers of pool managers. After a restart, those of pools that have not reported yet count too. */
function managedWorkers({ state: { workers, pools } }: SizeView): number {
  let count = workers.size;
  for (const [id, { up }] of pools.known) if (!up) count -= workers.countIn(id);
  return count;
}

/** How many more workers may be ordered; negative while there are too many. */
export const startsLeft = (view: SizeView): number =>
  view.settings.pools.maxTotalWorkers - managedWorkers(view) - view.state.tables.worker_pool.outside.spawned;

export const ceilingText = ({ settings }: SizeView): string =>
  `as many workers run as may: ${settings.pools.maxTotalWorkers} (max_total_workers)`;

/** How many workers a worker pool should have now. */
export const wishedWorkers = (view: SizeView, id: string, record: WorkerPoolRecord): number =>
  new Wishes(view).of(id, record);

/** How many workers each of many worker pools should have now. */
export class Wishes {
  readonly #view: SizeView;
  #shares: ReadonlyMap<string, number> | undefined;

  constructor(view: SizeView) {
    this.#view = view;
  }

  of(id: string, record: WorkerPoolRecord): number {
    const wished = wishOf(this.#view, id, record);
    if (record.provisioner !== 'external' || wished === 0 || isEnoughForAll(this.#view)) return wished;
    this.#shares ??= sharesOf(this.#view);
    return this.#shares.get(id) ?? 0;
  }
}

/** At least the floor, also while it has had no work for its time to be held. The ceiling is not regarded. */
function wishOf({ state, settings }: SizeView, id: string, record: WorkerPoolRecord): number {
  if (!isKept(record)) return 0;
  const { minWarmWorkersPerPool: floor } = settings.pools;
  return state.pools.restingPools.has(id) ? floor : Math.max(record.desired, floor);
}

/** Whether the ceiling leaves room for all that worker pools of programs outside may wish. */
function isEnoughForAll(view: SizeView): boolean {
  const { minWarmWorkersPerPool: floor, maxTotalWorkers } = view.settings.pools;
  const { desired, pools } = view.state.tables.worker_pool.outside;
  return managedWorkers(view) + desired + floor * pools <= maxTotalWorkers;
}

/** What the ceiling leaves to each: first what it has, then more, in both cases to the older pools before the younger. */
function sharesOf(view: SizeView): Map<string, number> {
  const shares = new Map<string, number>();
  let left = Math.max(0, view.settings.pools.maxTotalWorkers - managedWorkers(view));
  for (const spawnedOnly of [true, false])
    for (const [id, record] of view.state.tables.worker_pool.entries()) {
      if (record.provisioner !== 'external') continue;
      const wished = wishOf(view, id, record);
      const had = shares.get(id) ?? 0;
      const more = Math.min(left, (spawnedOnly ? Math.min(wished, record.spawned) : wished) - had);
      shares.set(id, had + more);
      left -= more;
    }
  return shares;
}

/** The idle workers that are stopped while there are too many: first those that no worker pool keeps, by their last use. */
export function excessWorkers(view: EngineView & SizeView): readonly DeviceWorker[] {
  const all = startsLeft(view);
  if (all >= 0) return NONE;
  const { state, queue } = view;
  let excess = -all;
  const idle: DeviceWorker[] = [];
  for (const [id, record] of state.workers.entries()) {
    if (!state.pools.get(record.pool)?.up) continue;
    const name = workerBackend(record.pool, id);
    const worker = {
      id,
      record,
      backend: queue.fleet.backends.get(name),
      used: queue.fleet.usedSlots(name),
    };
    if (isLeaving(record)) excess--;
    else if (isIdle(worker)) idle.push(worker);
  }
  const isKeptOne = ({ record }: DeviceWorker): number => (record.workerPool === undefined ? 0 : 1);
  idle.sort((a, b) => isKeptOne(a) - isKeptOne(b) || lastUse(a) - lastUse(b));
  return idle.slice(0, Math.max(0, excess));
}

const NONE: readonly DeviceWorker[] = [];
