/** What this process uses of its machine: processor time, memory, open files, time of the event loop. For metrics. */
import { promises as files } from 'node:fs';
import { performance } from 'node:perf_hooks';

export interface ProcessUsage {
  readonly startedAtSec: number;
  readonly cpuUserSec: number;
  readonly cpuSystemSec: number;
  readonly residentBytes: number;
  readonly heapTotalBytes: number;
  readonly heapUsedBytes: number;
  /** Memory of objects outside of the heap, buffers among them. */
  readonly externalBytes: number;
  /** Time in which the event loop ran callbacks (active) and in which it waited for events (idle), since the start. */
  readonly loopActiveSec: number;
  readonly loopIdleSec: number;
}

export function processUsage(): ProcessUsage {
  const { user, system } = process.cpuUsage();
  const { rss, heapTotal, heapUsed, external } = process.memoryUsage();
  const { active, idle } = performance.eventLoopUtilization();
  return {
    startedAtSec: performance.timeOrigin / 1000,
    cpuUserSec: user / 1e6,
    cpuSystemSec: system / 1e6,
    residentBytes: rss,
    heapTotalBytes: heapTotal,
    heapUsedBytes: heapUsed,
    externalBytes: external,
    loopActiveSec: active / 1000,
    loopIdleSec: idle / 1000,
  };
}

/** The number of open file descriptors; undefined on a system without /proc. */
export async function openFiles(): Promise<number | undefined> {
  try {
    // One of them is that of this reading itself.
    return (await files.readdir('/proc/self/fd')).length - 1;
  } catch {
    return undefined;
  }
}

/** The most file descriptors that the process may have open; undefined on a system without /proc, or without a limit. */
export async function maxOpenFiles(): Promise<number | undefined> {
  try {
    const limits = await files.readFile('/proc/self/limits', 'utf8');
    const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
