/** Where a worker with a model could be started: hard constraints first, then what is preferred. */

import type { ModelRecord, WorkerRecord } from '../../model/records.ts';
import type { PoolDevice } from '../ports/pools.ts';
import { workerBackend } from '../ports/pools.ts';
import type { BackendEntry } from '../queue/fleet.ts';
import type { Need } from '../queue/lane.ts';
import type { PoolEntry } from '../state/pools.ts';
import type { EngineView } from '../turn.ts';

/** A worker, with what the fleet knows of it. */
export interface Resident {
  readonly id: string;
  readonly record: WorkerRecord;
  readonly backend: BackendEntry | undefined;
  /** What is open on it, also where the fleet does not know it any more. */
  readonly used: number;
}

/** What a pool or a device must have, whatever is on it now. */
export type WorkerNeed = Pick<Need, 'labels'> & Pick<ModelRecord, 'vramBytes'>;

/** A device that can be used, and what is on it. Looked at once for all who ask in the same step. */
export class Place {
  readonly pool: PoolEntry;
  readonly device: PoolDevice;
  readonly #view: EngineView;
  #residents: Resident[] | undefined;
  #sums: Sums | undefined;

  constructor(view: EngineView, pool: PoolEntry, device: PoolDevice) {
    this.#view = view;
    this.pool = pool;
    this.device = device;
  }

  get residents(): readonly Resident[] {
    const { fleet } = this.#view.queue;
    const { workers } = this.#view.state;
    const pool = this.pool.report.id;
    this.#residents ??= workers.on(pool, this.device.id).map(([id, record]) => {
      const name = workerBackend(pool, id);
      return { id, record, backend: fleet.backends.get(name), used: fleet.usedSlots(name) };
    });
    return this.#residents;
  }

  /** What is free there, without what was promised to workers that its manager does not show yet. */
  get freeBytes(): number {
    this.#sums ??= this.#add();
    return this.#sums.free;
  }

  /** What workers have that are on their way out. */
  get leavingBytes(): number {
    this.#sums ??= this.#add();
    return this.#sums.leaving;
  }

  /** What workers have that do nothing. */
  get idleBytes(): number {
    this.#sums ??= this.#add();
    return this.#sums.idle;
  }

  /** Something was decided about it. */
  changed(): void {
    this.#residents = undefined;
    this.#sums = undefined;
  }

  #add(): Sums {
    const sums = { free: this.device.availableBytes, leaving: 0, idle: 0 };
    for (const resident of this.residents) {
      const { id, record } = resident;
      // Ordered, and not seen yet; or given up, and perhaps on its way all the same.
      if (!this.pool.workers.has(id)) sums.free -= record.vramBytes;
      if (isLeaving(record)) sums.leaving += record.vramBytes;
      else if (isIdle(resident)) sums.idle += record.vramBytes;
    }
    return sums;
  }
}

interface Sums {
  readonly free: number;
  readonly leaving: number;
  readonly idle: number;
}

export const isLeaving = ({ state }: WorkerRecord): boolean => state === 'stopping' || state === 'draining';

export const isIdle = ({ record, used }: Resident): boolean => record.state === 'running' && used === 0;

/** The devices of all pools that answer and are not drained. */
export class Survey {
  readonly #view: EngineView;
  #places: readonly Place[] | undefined;
  /** For models without labels, by what they need: many ask for the same. */
  readonly #found = new Map<number, readonly Place[]>();
  #mostFree: number | undefined;

  constructor(view: EngineView) {
    this.#view = view;
  }

  /** No device has more room; it only becomes less while it is given out. */
  get mostFree(): number {
    this.#mostFree ??= Math.max(0, ...this.#all().map(({ freeBytes }) => freeBytes));
    return this.#mostFree;
  }

  /** Those on which it would fit if they were empty. */
  for({ labels, vramBytes }: WorkerNeed): readonly Place[] {
    const known = labels ? undefined : this.#found.get(vramBytes);
    if (known) return known;
    const places = this.#all().filter(
      ({ pool, device }) => device.totalBytes >= vramBytes && hasLabels(pool, labels),
    );
    if (!labels) this.#found.set(vramBytes, places);
    return places;
  }

  #all(): readonly Place[] {
    this.#places ??= this.#look();
    return this.#places;
  }

  #look(): Place[] {
    const places: Place[] = [];
    const { state } = this.#view;
    for (const [id, pool] of state.pools.known) {
      if (!pool.up || state.tables.pool.get(id)?.draining) continue;
      for (const device of pool.devices.values()) {
        if (device.ok) places.push(new Place(this.#view, pool, device));
      }
    }
    return places;
  }
}

export function hasLabels(pool: PoolEntry, labels: Need['labels']): boolean {
  return !labels || Object.entries(labels).every(([name, value]) => labelOf(pool, name) === value);
}

function labelOf({ report }: PoolEntry, name: string): string | undefined {
  if (name === 'region') return report.region;
  if (name === 'pool') return report.id;
  return report.labels[name];
}

export const distanceTo = ({ pool }: Place, region: string | undefined): number =>
  region === undefined || pool.report.region === region ? 0 : 1;

/** Of those with so much room the nearest, and of these the one with the most. */
export function roomiest(
  places: readonly Place[],
  needBytes: number,
  region: string | undefined,
  /** Pools that are taken only where no other has room. */
  last: ReadonlySet<string> = NONE,
): Place | undefined {
  let best: Place | undefined;
  for (const place of places) {
    if (place.freeBytes < needBytes) continue;
    if (!best || isBetter(place, best, region, last)) best = place;
  }
  return best;
}

const NONE: ReadonlySet<string> = new Set();

function isBetter(a: Place, b: Place, region: string | undefined, last: ReadonlySet<string>): boolean {
  const isLast = (place: Place): boolean => last.has(place.pool.report.id);
  if (isLast(a) !== isLast(b)) return isLast(b);
  const nearer = distanceTo(a, region) - distanceTo(b, region);
  return nearer === 0 ? a.freeBytes > b.freeBytes : nearer < 0;
}
