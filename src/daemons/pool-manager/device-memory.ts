/** Computes how much memory of a device is reserved by workers, and how much a new worker could get. */
import type { DeviceState } from '../../model/pool-wire.ts';
import type { DetectedDevice } from './nvidia.ts';

/** Device memory that is reserved for one worker. */
export interface MemoryReservation {
  readonly workerId: string;
  readonly gpu: number;
  readonly vramBytes: number;
  /** Since when the worker uses the memory, by the monotonic clock; undefined while it is starting. */
  readonly usedSince: number | undefined;
}

/** `probedAt`: when `device.freeBytes` was measured, by the monotonic clock. */
export function deviceState(
  device: DetectedDevice,
  all: readonly MemoryReservation[],
  probedAt: number,
): DeviceState {
  const reservations = all.filter(({ gpu }) => gpu === device.id);
  const allocated = sum(reservations);
  // Memory that is reserved but was not in use at the probe is still in freeBytes, so it is subtracted.
  const unseen = sum(reservations.filter(({ usedSince }) => usedSince === undefined || usedSince > probedAt));
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
    workers: reservations.map(({ workerId }) => workerId),
  };
}

const sum = (reservations: readonly MemoryReservation[]): number =>
  reservations.reduce((total, { vramBytes }) => total + vramBytes, 0);
