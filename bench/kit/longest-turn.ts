/**
 * The longest time between two turns of the event loop, and the most CPU time of the main thread in such a time. A
 * machine that is shared takes its cores away for tens of milliseconds: only the CPU time is certain to be our own.
 */
import { now } from './numbers.ts';

export interface LongestTurn {
  readonly maxMs: number;
  readonly maxCpuMs: number;
}

/** Watches the event loop from now on. The function that it returns ends that. */
export function watchTurns(): () => LongestTurn {
  let last = { at: now(), cpu: process.threadCpuUsage() };
  let maxMs = 0;
  let maxCpuMs = 0;
  const look = (): void => {
    const spent = process.threadCpuUsage(last.cpu);
    maxMs = Math.max(maxMs, now() - last.at);
    maxCpuMs = Math.max(maxCpuMs, (spent.user + spent.system) / 1000);
    last = { at: now(), cpu: process.threadCpuUsage() };
  };
  const timer = setInterval(look, 1);
  return () => {
    look();
    clearInterval(timer);
    return { maxMs, maxCpuMs };
  };
}
