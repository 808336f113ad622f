/**
 * Which process is meant. A pid alone is reused; together with the time it started and the boot it belongs to
 * it never is. Where there is no /proc only the pid is known, and that has to do.
 */
import fs from 'node:fs';

export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks since the boot, as text. */
  readonly start: string;
  readonly boot: string;
}

export function isProcessIdentity(value: unknown): value is ProcessIdentity {
  const { pid, start, boot } = (value ?? {}) as Partial<ProcessIdentity>;
  return Number.isSafeInteger(pid) && typeof start === 'string' && typeof boot === 'string';
}

/** Where start and boot are not known. */
const UNKNOWN = '';

export function identityOf(pid: number): ProcessIdentity {
  return { pid, start: statOf(pid)?.start ?? UNKNOWN, boot: bootId() };
}

/** Whether that very process is still there; one that only waits to be reaped is not. */
export function isAlive({ pid, start, boot }: ProcessIdentity): boolean {
  return isThisBoot(boot) && isPresent(pid, start);
}

export const isThisBoot = (boot: string): boolean => boot === bootId();

/** The same, where the process is known to be of this boot. */
export function isPresent(pid: number, start: string): boolean {
  // 0, 1 and what is below never are a supervisor, and a signal to them would reach far more than one process.
  if (!Number.isSafeInteger(pid) || pid <= 1) return false;
  if (start === UNKNOWN) return answers(pid);
  const stat = statOf(pid);
  return stat !== undefined && stat.start === start && !/[ZXx]/.test(stat.state);
}

/** Living processes that were started with this value of this variable. */
export function processesWith(variable: string, value: string): number[] {
  const wanted = Buffer.from(`\0${variable}=${value}\0`);
  const own = String(process.pid);
  return listed('/proc')
    .filter((name) => /^\d+$/.test(name) && name !== own)
    .filter((name) => environOf(name)?.includes(wanted))
    .map(Number);
}

/** Whether a process leads its group, which has its number then. */
export const leadsGroup = (pid: number): boolean => statOf(pid)?.group === pid;

/** Sends a signal to a process, or to a group when the number is negative; false when there is none. 0 only asks. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

function statOf(pid: number): { state: string; group: number; start: string } | undefined {
  const text = read(`/proc/${pid}/stat`)?.toString('latin1');
  if (text === undefined) return undefined;
  // The name of the program stands in brackets and may hold spaces and brackets itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? 'X', group: Number(fields[2]), start: fields[19] ?? UNKNOWN };
}

const bootId = (): string => read('/proc/sys/kernel/random/boot_id')?.toString('latin1').trim() ?? UNKNOWN;

function environOf(pid: string): Buffer | undefined {
  const bytes = read(`/proc/${pid}/environ`);
  return bytes && Buffer.concat([Buffer.from('\0'), bytes]);
}

function answers(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function read(path: string): Buffer | undefined {
  try {
    return fs.readFileSync(path);
  } catch {
    return undefined;
  }
}

function listed(folder: string): string[] {
  try {
    return fs.readdirSync(folder);
  } catch {
    return [];
  }
}
