/** Chooses the folder of the data, and reads the kernel's figures on its disk. */
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const TMPFS_MAGIC = 0x01021994;
/** The index of the completed flush requests in /sys/block/…/stat. */
const FLUSH_FIELD = 15;
const USUAL_DISKS = ['vda', 'sda', 'nvme0n1', 'xvda'];

const isMemory = (folder: string): boolean => fs.statfsSync(folder).type === TMPFS_MAGIC;

/** Makes a folder on a real disk. A folder in memory (tmpfs) is refused: its syncs cost nothing. */
export function makeDataFolder(fallback: string): string {
  const chosen = process.env['BENCH_DIR'];
  let parent = chosen ?? tmpdir();
  if (chosen === undefined && isMemory(parent)) parent = fallback;
  fs.mkdirSync(parent, { recursive: true });
  if (isMemory(parent)) throw new Error(`${parent} is in memory; set BENCH_DIR to a folder on a disk`);
  return fs.mkdtempSync(join(parent, 'orchd-bench-'));
}

/** The /sys folder of the whole disk that holds a folder; where that is unknown, of the first usual disk. */
function diskFolder(folder: string): string | undefined {
  const { dev } = fs.statSync(folder);
  const major = (dev >> 8) & 0xfff;
  const minor = (dev & 0xff) | ((dev >> 12) & 0xfff00);
  try {
    const device = fs.realpathSync(`/sys/dev/block/${major}:${minor}`);
    return fs.existsSync(join(device, 'partition')) ? dirname(device) : device;
  } catch {
    return USUAL_DISKS.map((name) => `/sys/block/${name}`).find((path) => fs.existsSync(path));
  }
}

/** The flush requests that the whole disk has completed, for any process; undefined where the kernel does not report them. */
export function diskFlushes(folder: string): number | undefined {
  const disk = diskFolder(folder);
  if (disk === undefined) return undefined;
  try {
    return Number(fs.readFileSync(join(disk, 'stat'), 'utf8').trim().split(/\s+/)[FLUSH_FIELD]);
  } catch {
    return undefined;
  }
}

export function diskName(folder: string): string {
  const disk = diskFolder(folder)?.split('/').at(-1) ?? 'unknown disk';
  const mounts = readOr('/proc/mounts')
    .split('\n')
    .map((line) => line.split(' '));
  const inside = mounts.filter(([, at]) => at !== undefined && isInside(folder, at));
  const mount = inside.sort(([, a = ''], [, b = '']) => b.length - a.length)[0];
  return mount ? `${mount[2]} on ${disk}` : disk;
}

function readOr(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

const isInside = (folder: string, mountPoint: string): boolean =>
  mountPoint === '/' || folder === mountPoint || folder.startsWith(`${mountPoint}/`);

/** Bytes of all files below a folder. */
export function folderBytes(folder: string): number {
  let bytes = 0;
  for (const item of fs.readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (item.isFile()) bytes += fs.statSync(join(item.parentPath, item.name)).size;
  }
  return bytes;
}
