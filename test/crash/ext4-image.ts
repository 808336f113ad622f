/** A small ext4 file system in a file, whose power can be cut: what was not synced by then is gone. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';

/** EXT4_IOC_SHUTDOWN with NOLOGFLUSH: from now on nothing reaches the disk. */
const SHUTDOWN = `
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(fd, 0x8004587D, struct.pack('I', 2))
`;

const IMAGE_BYTES = 64 * 2 ** 20;
const UNMOUNT_TRIES = 500;
const UNMOUNT_PAUSE_MS = 20;

export class Ext4Image {
  readonly mountPoint: string;
  readonly #file: string;
  #mounted = false;

  constructor(folder: string) {
    this.#file = join(folder, 'disk.img');
    this.mountPoint = join(folder, 'disk');
    fs.mkdirSync(this.mountPoint);
    fs.writeFileSync(this.#file, '');
    fs.truncateSync(this.#file, IMAGE_BYTES);
    command('mkfs.ext4', ['-q', '-F', this.#file]);
  }

  mount(): void {
    this.#awaitDetached();
    command('mount', ['-o', 'loop', this.#file, this.mountPoint]);
    this.#mounted = true;
  }

  /**
   * A process in another mount namespace may still have the file system that was unmounted here, shut down as it is; mounted
   * again, it would be the same one.
   */
  #awaitDetached(): void {
    const pause = new Int32Array(new SharedArrayBuffer(4));
    const isAttached = (): boolean => spawnSync('losetup', ['-j', this.#file]).stdout?.length > 0;
    for (let tries = 0; isAttached() && tries < UNMOUNT_TRIES; tries++)
      Atomics.wait(pause, 0, 0, UNMOUNT_PAUSE_MS);
  }

  /** Pulls the plug. */
  shutdown(): void {
    command('python3', ['-c', SHUTDOWN, this.mountPoint]);
  }

  unmount(): void {
    if (!this.#mounted) return;
    command('umount', [this.mountPoint]);
    this.#mounted = false;
  }

  /** Unmounts once the processes that were killed have let go of their files. */
  async unmountWhenFree(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return this.unmount();
      } catch (error) {
        if (tries === UNMOUNT_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, UNMOUNT_PAUSE_MS));
      }
    }
  }

  /** Last resort when a test has failed half way: never leaves a mount behind. */
  dispose(): void {
    if (this.#mounted) spawnSync('umount', ['-l', this.mountPoint]);
    this.#mounted = false;
  }
}

function command(file: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${file} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`);
}

/** Says why power cannot be cut here, or undefined where it can. */
export function powerLossMissing(folder: string): string | undefined {
  if (process.getuid?.() !== 0) return 'power loss needs root, for a loop mount';
  fs.mkdirSync(folder);
  let image: Ext4Image | undefined;
  try {
    image = new Ext4Image(folder);
    image.mount();
    image.shutdown();
    image.unmount();
    return undefined;
  } catch (error) {
    return `power loss needs mkfs.ext4, loop mounts and python3: ${(error as Error).message}`;
  } finally {
    image?.dispose();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}
