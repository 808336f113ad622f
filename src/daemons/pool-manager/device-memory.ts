/** Computes how much memory of a device its workers have, and how much a new worker could get. No byte counts twice. */
import type { DeviceState } from '../../model/pool-wire.ts';
import type { DetectedDevice } from './nvidia.ts';

/** The device memory of one worker: what was reserved for it, and what it was measured to use. */
export interface WorkerMemory {
  readonly workerId: string;
  readonly gpu: number;
  readonly reservedBytes: number;
  /** The order names the memory. Otherwise `reservedBytes` is an estimate, until the worker is ready and measured. */
  readonly isOrdered: boolean;
  /** Undefined where the use is not known. */
  readonly measured: MeasuredMemory | undefined;
  /** Since when the worker uses all of its memory, by the monotonic clock; undefined while it is starting. */
  readonly usedSince: number | undefined;
}

export interface MeasuredMemory {
  readonly bytes: number;
  /** When the probe began that measured it, by the monotonic clock. */
  readonly at: number;
}

/** The memory that is kept for a worker. While it is starting it has not taken all that it needs yet. */
function keptBytes({ reservedBytes, isOrdered, measured, usedSince }: WorkerMemory): number {
  if (!measured) return reservedBytes;
  const isWhole = usedSince !== undefined && measured.at >= usedSince;
  return isWhole && !isOrdered ? measured.bytes : Math.max(reservedBytes, measured.bytes);
}

/** The part of the memory kept for a worker that the device no longer reports as free. */
function takenBytes(worker: WorkerMemory, probedAt: number): number {
  if (worker.measured) return worker.measured.bytes;
  const { usedSince } = worker;
  return usedSince !== undefined && usedSince <= probedAt ? keptBytes(worker) : 0;
}

/** `probedAt`: when `device.freeBytes` was measured, by the monotonic clock. */
export function deviceState(
  device: DetectedDevice,
  all: readonly WorkerMemory[],
  probedAt: number,
): DeviceState {
  const workers = all.filter(({ gpu }) => gpu === device.id);
  const allocated = sum(workers.map(keptBytes));
  // Memory that is kept for a worker and not taken yet is still in freeBytes, so it is subtracted.
  const awaited = sum(workers.map((worker) => Math.max(0, keptBytes(worker) - takenBytes(worker, probedAt))));
  const left = Math.min(device.totalBytes - allocated, (device.freeBytes ?? device.totalBytes) - awaited);
  return {
    id: device.id,
    kind: device.kind,
    name: device.name,
    total_vram: device.totalBytes,
    allocated_vram: allocated,
    available_vram: device.fault === undefined ? Math.max(0, left) : 0,
    status: device.fault === undefined ? 'ok' : 'error',
    ...(device.fault !== undefined && { reason: device.fault }),
    workers: workers.map(({ workerId }) => workerId),
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
