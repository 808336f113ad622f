/** Measures CPU time, disk flushes and the load of other processes between two instants. */
import fs from 'node:fs';
import { diskFlushes } from './disk.ts';
import { now } from './numbers.ts';

/** The unit in which Linux reports CPU time in /proc. */
const TICKS_PER_SECOND = 100;

export interface Reading {
  readonly seconds: number;
  /** CPU time of all threads of this process and of the servers that belong to the measured system. */
  readonly cpuUs: number;
  /** CPU time of those servers alone. */
  readonly serversUs: number;
  readonly mainThreadUs: number;
  readonly flushes: number | undefined;
  /** Average number of cores that other processes used or the host took; where it is high, the result is unreliable. */
  readonly otherCores: number | undefined;
}

export class Meter {
  readonly #folder: string;
  readonly #servers: readonly number[];
  readonly #helpers: readonly number[];
  readonly #startedAt = now();
  readonly #cpu = process.cpuUsage();
  readonly #thread = process.threadCpuUsage();
  readonly #serverSeconds: number;
  readonly #helperSeconds: number;
  readonly #flushes: number | undefined;
  readonly #busySeconds: number | undefined;

  /** `helpers` are processes of the bench that are neither measured nor counted in otherCores. */
  constructor(folder: string, servers: readonly number[] = [], helpers: readonly number[] = []) {
    this.#folder = folder;
    this.#servers = servers;
    this.#helpers = helpers;
    this.#serverSeconds = secondsOf(servers);
    this.#helperSeconds = secondsOf(helpers);
    this.#flushes = diskFlushes(folder);
    this.#busySeconds = machineBusySeconds();
  }

  read(): Reading {
    const seconds = (now() - this.#startedAt) / 1000;
    const cpu = process.cpuUsage(this.#cpu);
    const thread = process.threadCpuUsage(this.#thread);
    const serversUs = (secondsOf(this.#servers) - this.#serverSeconds) * 1e6;
    const helpersUs = (secondsOf(this.#helpers) - this.#helperSeconds) * 1e6;
    const cpuUs = cpu.user + cpu.system + serversUs;
    return {
      seconds,
      cpuUs,
      serversUs,
      mainThreadUs: thread.user + thread.system,
      flushes: difference(diskFlushes(this.#folder), this.#flushes),
      otherCores: this.#otherCores(seconds, cpuUs + helpersUs),
    };
  }

  #otherCores(seconds: number, ownUs: number): number | undefined {
    const busy = difference(machineBusySeconds(), this.#busySeconds);
    return busy === undefined ? undefined : Math.max(0, (busy - ownUs / 1e6) / seconds);
  }
}

const difference = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? undefined : a - b;

/**
 * CPU time of these processes and of all their descendants, also ended ones. It falls when a process ends before its
 * parent has waited for it.
 */
export function cpuSecondsOf(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    for (const spent of ticksOf(pid)) ticks += spent;
    ticks += cpuSecondsOf(childrenOf(pid)) * TICKS_PER_SECOND;
  }
  return ticks / TICKS_PER_SECOND;
}

/** CPU time of these processes and all their children, also ended ones: PostgreSQL uses one process per connection. */
function secondsOf(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) for (const spent of ticksOf(pid)) ticks += spent;
  for (const pid of pids.flatMap(childrenOf)) for (const spent of ticksOf(pid).slice(0, OWN)) ticks += spent;
  return ticks / TICKS_PER_SECOND;
}

/** The number of leading fields of ticksOf() that belong to the process itself. */
const OWN = 2;

/** User and system time of a process, then those of its ended children. */
function ticksOf(pid: number): number[] {
  const text = readOr(`/proc/${pid}/stat`);
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).map(Number);
}

const childrenOf = (pid: number): number[] =>
  readOr(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);

/** The text of a file; empty where the process has ended meanwhile. */
function readOr(path: string): string {
  try {
    return fs.readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** CPU time of all processes, plus the time that the host took from this virtual machine (steal). */
function machineBusySeconds(): number | undefined {
  try {
    const line = fs.readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '';
    const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line
      .trim()
      .split(/\s+/)
      .slice(1)
      .map(Number);
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND;
  } catch {
    return undefined;
  }
}
