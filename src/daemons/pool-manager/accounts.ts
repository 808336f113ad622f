/** What is promised of each device, and what could be given out. */
import type { DeviceState } from '../../model/pool-wire.ts';
import type { FoundDevice } from './nvidia.ts';

export interface Holder {
  readonly id: string;
  readonly gpu: number;
  readonly vramBytes: number;
  /** Since when it has what it was promised, by the clock that only grows; undefined while it is starting. */
  readonly hasItSince: number | undefined;
}

/** `askedAt`: when the device said what is free of it. */
export function deviceState(device: FoundDevice, all: readonly Holder[], askedAt: number): DeviceState {
  const holders = all.filter(({ gpu }) => gpu === device.id);
  const allocated = sum(holders);
  // What is promised and not yet used looks free to the device.
  const unseen = sum(holders.filter(({ hasItSince }) => hasItSince === undefined || hasItSince > askedAt));
  const left = Math.min(device.totalBytes - allocated, (device.freeBytes ?? device.totalBytes) - unseen);
  return {
    id: device.id,
    kind: device.kind,
    name: device.name,
    total_vram: device.totalBytes,
    allocated_vram: allocated,
    available_vram: device.fault === undefined ? Math.max(0, left) : 0,
    status: device.fault === undefined ? 'ok' : 'error',
    ...(device.fault !== undefined && { reason: device.fault }),
    workers: holders.map(({ id }) => id),
  };
}

const sum = (holders: readonly Holder[]): number =>
  holders.reduce((total, { vramBytes }) => total + vramBytes, 0);
