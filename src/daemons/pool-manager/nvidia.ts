/** Parses the output of `nvidia-smi`. A device whose numbers cannot be read gets a `fault` instead of being left out. */

const MIB = 2 ** 20;
const FIELDS = ['index', 'name', 'memory.total', 'memory.used', 'memory.free'] as const;

export const NVIDIA_ARGV: readonly string[] = [
  'nvidia-smi',
  `--query-gpu=${FIELDS.join(',')}`,
  '--format=csv,noheader,nounits',
];

/** Lists the processes that use devices, also several lines for a process that uses several. */
export const NVIDIA_PROCESSES_ARGV: readonly string[] = [
  'nvidia-smi',
  '--query-compute-apps=pid,used_memory',
  '--format=csv,noheader,nounits',
];

/** A process and the device memory that it has. */
export interface DeviceProcess {
  readonly pid: number;
  readonly usedBytes: number;
}

export interface DetectedDevice {
  readonly id: number;
  readonly kind: 'nvidia' | 'cpu';
  readonly name: string;
  readonly totalBytes: number;
  /** Free memory as the driver reports it, all programs considered; undefined for the CPU, where it is not measured. */
  readonly freeBytes: number | undefined;
  /** Why the device cannot be used. */
  readonly fault?: string;
}

const MAX_DEVICES = 64;
const MAX_ID = 1023;
const MAX_PROCESSES = 10_000;

/** Lines that do not begin with an index are not about a device and are skipped. */
export function parseNvidia(text: string): DetectedDevice[] {
  const devices = new Map<number, DetectedDevice>();
  for (const line of text.split(/\r?\n/)) {
    const device = deviceOf(line);
    if (device && !devices.has(device.id) && devices.size < MAX_DEVICES) devices.set(device.id, device);
  }
  return [...devices.values()].sort((a, b) => a.id - b.id);
}

/** Lines without a pid and a number are skipped: some drivers do not say what a process uses. */
export function parseNvidiaProcesses(text: string): DeviceProcess[] {
  const processes: DeviceProcess[] = [];
  for (const line of text.split(/\r?\n/).slice(0, MAX_PROCESSES)) {
    const [pid = '', used = '', ...rest] = line.split(',').map((cell) => cell.trim());
    const usedBytes = mebibytes(used);
    if (!/^\d{1,10}$/.test(pid) || usedBytes === undefined || rest.length > 0) continue;
    processes.push({ pid: Number(pid), usedBytes });
  }
  return processes;
}

function deviceOf(line: string): DetectedDevice | undefined {
  const cells = line.split(',').map((cell) => cell.trim());
  const [index = '', ...rest] = cells;
  if (!/^\d{1,4}$/.test(index) || Number(index) > MAX_ID || rest.length < FIELDS.length - 1) return undefined;
  // The numbers are taken from the end of the line, because a name may contain a comma.
  const [total, used, free] = rest.slice(-3).map(mebibytes);
  const name = printable(rest.slice(0, -3).join(', ')) || 'NVIDIA';
  const base = { id: Number(index), kind: 'nvidia', name } as const;
  if (total === undefined || total === 0) return broken(base, rest.at(-3));
  if (used === undefined && free === undefined) return { ...broken(base, rest.at(-2)), totalBytes: total };
  // The smaller of both: memory that the driver keeps for itself is neither used nor free.
  const left = Math.min(free ?? total, used === undefined ? total : Math.max(0, total - used));
  return { ...base, totalBytes: total, freeBytes: left };
}

const broken = (
  base: { readonly id: number; readonly kind: 'nvidia'; readonly name: string },
  reported: string | undefined,
): DetectedDevice => ({
  ...base,
  totalBytes: 0,
  freeBytes: 0,
  fault: `its memory is reported as "${printable(reported ?? '')}"`,
});

function mebibytes(cell: string): number | undefined {
  return /^\d{1,9}$/.test(cell) ? Number(cell) * MIB : undefined;
}

const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 100);
