/**
 * How many CPU cores this process may use at once: the cores that it may run on, less where its control group has a
 * quota. A container with a quota still sees all cores of the machine.
 */
import fs from 'node:fs';
import { availableParallelism } from 'node:os';

/** Returns the content of a file; undefined where it cannot be read. */
export type ReadText = (path: string) => string | undefined;

const MOUNT = '/sys/fs/cgroup';
/** Version 1 has one hierarchy for each controller; systems mount that of the CPU under either name. */
const V1_MOUNTS = [`${MOUNT}/cpu`, `${MOUNT}/cpu,cpuacct`];

/** The cores that this process may use; a fraction where its quota is one. */
export const usableCores = (): number => Math.min(availableParallelism(), cpuQuota(readText));

/** The quota of the process in cores, by version 2 or 1 of control groups; infinite where there is none. */
export function cpuQuota(read: ReadText): number {
  const groups = (read('/proc/self/cgroup') ?? '').split('\n').map((line) => line.split(':'));
  const v2 = groups.find(([id, controllers]) => id === '0' && controllers === '');
  const v1 = groups.find(([, controllers]) => controllers?.split(',').includes('cpu'));
  const quotas = [
    ...foldersOf(MOUNT, v2?.[2]).map((folder) => quotaV2(read(`${folder}/cpu.max`))),
    ...V1_MOUNTS.flatMap((mount) => foldersOf(mount, v1?.[2])).map((folder) =>
      quotaV1(read(`${folder}/cpu.cfs_quota_us`), read(`${folder}/cpu.cfs_period_us`)),
    ),
  ];
  // A group cannot use more than any group above it.
  return Math.min(...quotas);
}

/**
 * The folder of a group and those of the groups above it. Inside of a container only the mount itself may exist, while
 * the path is that of the machine: the other folders are then missing, and have no quota.
 */
function foldersOf(mount: string, path = ''): string[] {
  const names = path.split('/').filter((name) => name !== '' && name !== '..');
  return Array.from({ length: names.length + 1 }, (_, count) => [mount, ...names.slice(0, count)].join('/'));
}

/** `cpu.max`: the quota and the period in microseconds; the quota is `max` where there is none. */
function quotaV2(text = ''): number {
  const [quota, period] = text.trim().split(/\s+/);
  return quotient(quota, period);
}

/** `cpu.cfs_quota_us` is -1 where there is no quota. */
const quotaV1 = (quota = '', period = ''): number => quotient(quota.trim(), period.trim());

function quotient(quota: string | undefined, period: string | undefined): number {
  const cores = Number(quota || Number.NaN) / Number(period || Number.NaN);
  return Number.isFinite(cores) && cores > 0 ? cores : Number.POSITIVE_INFINITY;
}

function readText(path: string): string | undefined {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
