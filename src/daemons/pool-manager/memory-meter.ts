/**
 * Measures the device memory of workers after every probe of the devices: by process where the driver tells, else, once,
 * by how much more of the device is in use after the worker's start than before.
 */
import { parentOf } from '../../kit/process/identity.ts';
import type { MeasuredMemory, WorkerMemory } from './device-memory.ts';
import { memoryByWorker } from './memory-by-process.ts';
import type { DetectedDevice, DeviceProcess } from './nvidia.ts';

/** What a probe of the devices has found. */
export interface ProbedDevices {
  readonly all: readonly DetectedDevice[];
  readonly processes: readonly DeviceProcess[];
  /** When the probe began, by the monotonic clock. */
  readonly probedAt: number;
}

/** A worker whose process is alive. */
export interface MeasurableWorker {
  readonly memory: WorkerMemory;
  /** The pid of its first process; undefined until it is known. */
  readonly pid: number | undefined;
  measured(memory: MeasuredMemory, how: 'by process' | 'by difference'): void;
}

/** A device as it was before a worker was started there. */
interface DeviceBefore {
  readonly usedBytes: number;
  /** The other workers there, by id. */
  readonly others: string;
}

export class MemoryMeter {
  readonly #before = new Map<string, DeviceBefore>();
  #freedAt = Number.NEGATIVE_INFINITY;

  /** Call when the processes of a worker have ended: an earlier probe does not know of the memory that came free. */
  freed(now: number): void {
    this.#freedAt = now;
  }

  /** Call before a worker is started. `others` are the workers that live. */
  starts(id: string, gpu: number, others: readonly MeasurableWorker[], probed: ProbedDevices): void {
    const there = others.filter(({ memory }) => memory.gpu === gpu);
    const usedBytes = usedOn(gpu, probed);
    // What a worker takes that is starting beside it could not be told from what this one takes.
    const isQuiet = there.every(({ memory }) => isSeen(memory, probed.probedAt));
    if (usedBytes === undefined || !isQuiet || this.#freedAt >= probed.probedAt) return;
    this.#before.set(id, { usedBytes, others: idsOf(there) });
  }

  /** Call after every probe, with the workers that live. */
  measure(workers: readonly MeasurableWorker[], probed: ProbedDevices): void {
    const leaders = new Map<number, string>();
    for (const { memory, pid } of workers) if (pid !== undefined) leaders.set(pid, memory.workerId);
    const byProcess = memoryByWorker(probed.processes, leaders, parentOf);
    for (const worker of workers) {
      const bytes = byProcess?.get(worker.memory.workerId);
      if (bytes !== undefined) worker.measured({ bytes, at: probed.probedAt }, 'by process');
      else this.#measureDifference(worker, workers, probed);
    }
    const living = new Set(workers.map(({ memory }) => memory.workerId));
    for (const id of this.#before.keys()) if (!living.has(id)) this.#before.delete(id);
  }

  #measureDifference(
    worker: MeasurableWorker,
    workers: readonly MeasurableWorker[],
    probed: ProbedDevices,
  ): void {
    const { workerId, gpu } = worker.memory;
    const before = this.#before.get(workerId);
    if (!before || !isSeen(worker.memory, probed.probedAt)) return;
    this.#before.delete(workerId);
    const others = workers.filter(({ memory }) => memory.gpu === gpu && memory.workerId !== workerId);
    const usedBytes = usedOn(gpu, probed);
    if (usedBytes === undefined || idsOf(others) !== before.others || this.#freedAt >= probed.probedAt)
      return;
    const bytes = Math.max(0, usedBytes - before.usedBytes);
    worker.measured({ bytes, at: probed.probedAt }, 'by difference');
  }
}

/** Whether the probe has seen all the memory that the worker uses. */
const isSeen = ({ usedSince }: WorkerMemory, probedAt: number): boolean =>
  usedSince !== undefined && usedSince <= probedAt;

/** The memory in use on a device; undefined where the device does not tell. */
function usedOn(gpu: number, { all }: ProbedDevices): number | undefined {
  const device = all.find(({ id }) => id === gpu);
  if (device?.freeBytes === undefined || device.fault !== undefined) return undefined;
  return device.totalBytes - device.freeBytes;
}

const idsOf = (workers: readonly MeasurableWorker[]): string =>
  JSON.stringify(workers.map(({ memory }) => memory.workerId).sort());
