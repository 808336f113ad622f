import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuQuota, usableCores } from './cpu-limit.ts';

const quotaOf = (files: Readonly<Record<string, string>>): number => cpuQuota((path) => files[path]);
const V2 = '/sys/fs/cgroup';

test('the quota of version 2 counts, in a container and in a slice of the machine', () => {
  assert.equal(quotaOf({ '/proc/self/cgroup': '0::/\n', [`${V2}/cpu.max`]: '150000 100000\n' }), 1.5);
  const slice = { '/proc/self/cgroup': '0::/system.slice/orchd.service\n' };
  assert.equal(quotaOf({ ...slice, [`${V2}/system.slice/orchd.service/cpu.max`]: '400000 100000' }), 4);
  // The path of the machine, where only the group of the container is mounted.
  assert.equal(quotaOf({ '/proc/self/cgroup': '0::/docker/abc\n', [`${V2}/cpu.max`]: '200000 100000' }), 2);
  assert.equal(quotaOf({ '/proc/self/cgroup': '0::/../x\n', [`${V2}/cpu.max`]: '300000 100000' }), 3);
});

test('the smallest quota of the group and of those above it counts', () => {
  const files = {
    '/proc/self/cgroup': '0::/a/b\n',
    [`${V2}/a/b/cpu.max`]: '800000 100000',
    [`${V2}/a/cpu.max`]: '200000 100000',
    [`${V2}/cpu.max`]: 'max 100000',
  };
  assert.equal(quotaOf(files), 2);
});

test('the quota of version 1 counts, under either name of its mount', () => {
  for (const mount of ['cpu', 'cpu,cpuacct']) {
    const files = {
      '/proc/self/cgroup': '4:cpu,cpuacct:/docker/abc\n0::/\n',
      [`${V2}/${mount}/cpu.cfs_quota_us`]: '250000\n',
      [`${V2}/${mount}/cpu.cfs_period_us`]: '100000\n',
    };
    assert.equal(quotaOf(files), 2.5, mount);
  }
});

test('without a quota, or with files that say something else, there is no limit', () => {
  for (const files of [
    {},
    { '/proc/self/cgroup': '0::/\n', [`${V2}/cpu.max`]: 'max 100000\n' },
    { '/proc/self/cgroup': '0::/\n', [`${V2}/cpu.max`]: '' },
    { '/proc/self/cgroup': 'garbage', [`${V2}/cpu.max`]: '-5 100000' },
    { [`${V2}/cpu.max`]: '100000 0' },
    { [`${V2}/cpu/cpu.cfs_quota_us`]: '-1\n', [`${V2}/cpu/cpu.cfs_period_us`]: '100000\n' },
    { [`${V2}/cpu/cpu.cfs_quota_us`]: '100000\n' },
  ]) {
    assert.equal(quotaOf(files), Number.POSITIVE_INFINITY, JSON.stringify(files));
  }
});

test('this process may use some cores', () => {
  assert.ok(usableCores() > 0 && Number.isFinite(usableCores()));
});
