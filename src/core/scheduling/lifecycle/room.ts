/** Where a worker with a model could be started: hard constraints first, then what is preferred. Pure. */
import type { ModelRecord } from '../../../model/records.ts';
import type { Device, PoolEntry } from '../../pools/pools.ts';
import type { Need } from '../../queue/lane.ts';
import type { State } from '../../state.ts';

export interface Place {
  readonly pool: PoolEntry;
  readonly device: Device;
  /** What is free there, without what was promised to workers that its manager does not show yet. */
  readonly freeBytes: number;
}

/** What a pool or a device must have, whatever is on it now. */
export type Demand = Pick<Need, 'labels'> & Pick<ModelRecord, 'vramBytes'>;

/** Devices on which it would fit if they were empty, of pools that may be used. */
export function placesFor(state: State, demand: Demand): Place[] {
  const places: Place[] = [];
  for (const [id, pool] of state.pools.known) {
    if (!mayUse(state, id, pool, demand)) continue;
    for (const device of pool.devices.values()) {
      if (!device.ok || device.totalBytes < demand.vramBytes) continue;
      places.push({ pool, device, freeBytes: freeBytes(state, id, pool, device) });
    }
  }
  return places;
}

function mayUse(state: State, id: string, pool: PoolEntry, { labels }: Demand): boolean {
  if (!pool.up || state.tables.pool.get(id)?.draining) return false;
  return hasLabels(pool, labels);
}

export const hasLabels = (pool: PoolEntry, labels: Need['labels']): boolean =>
  !labels || Object.entries(labels).every(([name, value]) => labelOf(pool, name) === value);

export function labelOf({ report }: PoolEntry, name: string): string | undefined {
  if (name === 'region') return report.region;
  if (name === 'pool') return report.id;
  return report.labels[name];
}

function freeBytes(state: State, poolId: string, pool: PoolEntry, device: Device): number {
  let free = device.availableBytes;
  for (const [id, record] of state.workers.on(poolId, device.id)) {
    // Ordered, and not seen yet; or given up, and perhaps on its way all the same.
    if (!pool.workers.has(id)) free -= record.vramBytes;
  }
  return free;
}

/** Near pools first, then the device with the most room. */
export function byPreference(region: string | undefined): (a: Place, b: Place) => number {
  const distance = ({ pool }: Place): number =>
    region === undefined || pool.report.region === region ? 0 : 1;
  return (a, b) => distance(a) - distance(b) || b.freeBytes - a.freeBytes || a.device.id - b.device.id;
}

/**
 * Whether it fits nowhere: no device of any pool is large enough, all pools have been heard. A pool that has not
 * answered yet may have one.
 */
export function fitsNowhere(state: State, vramBytes: number): boolean {
  const { known, awaited } = state.pools;
  if (known.size === 0 || awaited.size > 0) return false;
  for (const pool of known.values()) {
    for (const device of pool.devices.values()) if (device.totalBytes >= vramBytes) return false;
  }
  return true;
}
