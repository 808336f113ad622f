/** Which worker has how much device memory, from the processes that the driver lists. */
import type { DeviceProcess } from './nvidia.ts';

/** More ancestors than any process of a worker has; a bound, because processes come and go while they are looked up. */
const MAX_ANCESTORS = 64;

/**
 * The sum over the processes of each worker: the worker itself and its descendants, such as a server that it started.
 * `leaders` are the worker ids by the pid of the worker's first process. A worker without a listed process is left out.
 *
 * Undefined where a listed process does not exist here: a container sees the pids of the machine, which in its own
 * numbering are other processes or none.
 */
export function memoryByWorker(
  listed: readonly DeviceProcess[],
  leaders: ReadonlyMap<number, string>,
  parentOf: (pid: number) => number | undefined,
): Map<string, number> | undefined {
  const sums = new Map<string, number>();
  for (const { pid, usedBytes } of listed) {
    if (parentOf(pid) === undefined) return undefined;
    const worker = workerOf(pid, leaders, parentOf);
    if (worker !== undefined) sums.set(worker, (sums.get(worker) ?? 0) + usedBytes);
  }
  return sums;
}

function workerOf(
  pid: number,
  leaders: ReadonlyMap<number, string>,
  parentOf: (pid: number) => number | undefined,
): string | undefined {
  let at: number | undefined = pid;
  for (let steps = 0; at !== undefined && steps < MAX_ANCESTORS; steps++) {
    const worker = leaders.get(at);
    if (worker !== undefined) return worker;
    at = parentOf(at);
  }
  return undefined;
}
