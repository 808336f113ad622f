/**
 * Identifies a process. The system reuses pids, but never a pid together with its start time and boot id. Where there
 * is no /proc, only the pid is known, and a reused pid goes unnoticed.
 */
import fs from 'node:fs';

export interface ProcessIdentity {
  readonly pid: number;
  /** The start time in clock ticks since the boot, as text. */
  readonly start: string;
  /** The kernel's boot id. */
  readonly boot: string;
}

export function isProcessIdentity(value: unknown): value is ProcessIdentity {
  const { pid, start, boot } = (value ?? {}) as Partial<ProcessIdentity>;
  return Number.isSafeInteger(pid) && typeof start === 'string' && typeof boot === 'string';
}

/** The value of `start` and `boot` where there is no /proc. */
const UNKNOWN = '';

export function identityOf(pid: number): ProcessIdentity {
  return { pid, start: statOf(pid)?.start ?? UNKNOWN, boot: bootId() };
}

/** Whether exactly this process is still alive; a zombie is not. */
export function isAlive({ pid, start, boot }: ProcessIdentity): boolean {
  return isThisBoot(boot) && isPresent(pid, start);
}

/** A process and the pid namespace that its pid counts in: the containers of one machine have one boot and many namespaces. */
export interface NamespacedIdentity extends ProcessIdentity {
  /** As the kernel names it, such as `pid:[4026531836]`. */
  readonly namespace: string;
}

export const isNamespacedIdentity = (value: unknown): value is NamespacedIdentity =>
  isProcessIdentity(value) && typeof (value as Partial<NamespacedIdentity>).namespace === 'string';

/** The identity of this process, for others to judge it by with lifeOf. */
export const ownIdentity = (): NamespacedIdentity => ({
  ...identityOf(process.pid),
  namespace: ownNamespace(),
});

/** `other boot`, `other namespace`: the pid means nothing here, and the process may live on. */
export type Life = 'alive' | 'dead' | 'other boot' | 'other namespace';

/** What can be told of a process that may run in another container or on another machine. */
export function lifeOf({ pid, start, boot, namespace }: NamespacedIdentity): Life {
  if (!isThisBoot(boot)) return 'other boot';
  if (namespace !== ownNamespace()) return 'other namespace';
  // In a container the pid may be 1, of which isPresent knows nothing.
  const isOwn = pid === process.pid && start === identityOf(pid).start;
  return isOwn || isPresent(pid, start) || (pid === 1 && statOf(1)?.start === start) ? 'alive' : 'dead';
}

/** Whether a process has this folder as its working directory; undefined where that cannot be seen. */
export function worksIn(pid: number, folder: string): boolean | undefined {
  try {
    const [theirs, ours] = [fs.statSync(`/proc/${pid}/cwd`), fs.statSync(folder)];
    return theirs.dev === ours.dev && theirs.ino === ours.ino;
  } catch {
    return undefined;
  }
}

export const isThisBoot = (boot: string): boolean => boot === bootId();

/** Like isAlive, for a process that is known to be of this boot. */
export function isPresent(pid: number, start: string): boolean {
  // A pid of 1 or less is never a process of ours, and a signal to it would reach far more than one process.
  if (!Number.isSafeInteger(pid) || pid <= 1) return false;
  if (start === UNKNOWN) return answers(pid);
  const stat = statOf(pid);
  return stat !== undefined && stat.start === start && !/[ZXx]/.test(stat.state);
}

/** The pids of the processes that were started with this environment variable set to this value. */
export function processesWith(variable: string, value: string): number[] {
  const wanted = Buffer.from(`\0${variable}=${value}\0`);
  const own = String(process.pid);
  return listed('/proc')
    .filter((name) => /^\d+$/.test(name) && name !== own)
    .filter((name) => environOf(name)?.includes(wanted))
    .map(Number);
}

/** Whether a process was started with this environment variable set to this value. */
export const environmentHas = (pid: number, variable: string, value: string): boolean =>
  environOf(String(pid))?.includes(`\0${variable}=${value}\0`) ?? false;

/** The pids of the processes that were started with this environment variable, by its value. */
export function processesBy(variable: string): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const wanted = Buffer.from(`\0${variable}=`);
  const own = String(process.pid);
  for (const name of listed('/proc')) {
    if (!/^\d+$/.test(name) || name === own) continue;
    const environ = environOf(name);
    const at = environ?.indexOf(wanted) ?? -1;
    if (!environ || at < 0) continue;
    const from = at + wanted.length;
    const end = environ.indexOf(0, from);
    const value = environ.toString('utf8', from, end < 0 ? environ.length : end);
    found.set(value, [...(found.get(value) ?? []), Number(name)]);
  }
  return found;
}

/** The pid of a process's parent, 0 if it has none here; undefined where there is no such process, or no /proc. */
export const parentOf = (pid: number): number | undefined => statOf(pid)?.parent;

/** Whether a process is the leader of its process group. */
export const leadsGroup = (pid: number): boolean => statOf(pid)?.group === pid;

/**
 * Sends a signal to a process, or to a group when `pid` is negative; signal 0 only checks. False when the call fails:
 * there is no such process, or it may not be signalled.
 */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

function statOf(pid: number): { state: string; parent: number; group: number; start: string } | undefined {
  const text = read(`/proc/${pid}/stat`)?.toString('latin1');
  if (text === undefined) return undefined;
  // The second field is the program's name in brackets; the name itself may contain spaces and brackets.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [parent, group] = [Number(fields[1]), Number(fields[2])];
  return { state: fields[0] ?? 'X', parent, group, start: fields[19] ?? UNKNOWN };
}

function ownNamespace(): string {
  try {
    return fs.readlinkSync('/proc/self/ns/pid');
  } catch {
    return UNKNOWN;
  }
}

const bootId = (): string => read('/proc/sys/kernel/random/boot_id')?.toString('latin1').trim() ?? UNKNOWN;

/** Holds most environments, so that a look at all processes allocates nothing. */
const scratch = Buffer.alloc(64 * 1024);

/** The environment of a process with a zero byte before it; valid until the next call. */
function environOf(pid: string): Buffer | undefined {
  let bytes: number;
  try {
    const fd = fs.openSync(`/proc/${pid}/environ`, 'r');
    try {
      bytes = fs.readSync(fd, scratch, 1, scratch.length - 1, 0);
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return undefined;
  }
  if (bytes < scratch.length - 1) return scratch.subarray(0, bytes + 1);
  const whole = read(`/proc/${pid}/environ`);
  return whole && Buffer.concat([Buffer.from('\0'), whole]);
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
