/** Small file systems of their own, for tests that need a disk to be full or read-only. Needs root. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Mount {
  readonly folder: string;
  /** Mounts it again with another mode: the kernel refuses while files are open for writing. */
  remount(mode: 'ro' | 'rw'): void;
  unmount(): void;
}

/** Why there can be no mounts here; undefined where there can. With CI set, root without mounts is a failure. */
export function mountsMissing(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root may mount a file system';
  try {
    mountTmpfs(1).unmount();
    return undefined;
  } catch (error) {
    if (process.env['CI'] === 'true') throw error;
    return (error as Error).message;
  }
}

const mounted = new Set<Mount>();

/** For the end of a test file: a test that ran out of time has not unmounted its own. */
export function unmountAll(): void {
  for (const mount of mounted) mount.unmount();
}

/** `at` is the folder to mount it on, by default a new one. */
export function mountTmpfs(mebibytes: number, at?: string): Mount {
  const folder = at ?? mkdtempSync(join(tmpdir(), 'orchd-mount-'));
  try {
    command('mount', '-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', folder);
  } catch (error) {
    if (at === undefined) rmSync(folder, { recursive: true });
    throw error;
  }
  const mount: Mount = {
    folder,
    remount: (mode) => command('mount', '-o', `remount,${mode}`, folder),
    unmount() {
      if (!mounted.delete(mount)) return;
      command('umount', '-l', folder);
      if (at === undefined) rmSync(folder, { recursive: true });
    },
  };
  mounted.add(mount);
  return mount;
}

/** Takes up all the space that is left. */
export function fill(path: string): void {
  const file = openSync(path, 'w');
  try {
    for (let size = 2 ** 20; size >= 512; size /= 2) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
      }
    }
  } finally {
    closeSync(file);
  }
}

function command(name: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(name, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${name} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`);
}
