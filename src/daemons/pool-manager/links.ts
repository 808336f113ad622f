/** Where paths really lead, and the links of the cache: what the disk of the env does not know of. */
import fs from 'node:fs';
import { dirname, relative, sep } from 'node:path';

export interface PlainFile {
  /** Without any link in it. */
  readonly path: string;
  readonly size: number;
}

/** The file itself where it lies inside of one of the folders; undefined where it does not, or is no plain file. */
export async function fileInside(path: string, roots: readonly string[]): Promise<PlainFile | undefined> {
  const real = await realPath(path);
  if (real === undefined) return undefined;
  for (const root of roots) {
    const realRoot = await realPath(root);
    if (realRoot === undefined || !real.startsWith(realRoot === sep ? sep : realRoot + sep)) continue;
    const stats = await fs.promises.lstat(real).catch(() => undefined);
    return stats?.isFile() ? { path: real, size: stats.size } : undefined;
  }
  return undefined;
}

async function realPath(path: string): Promise<string | undefined> {
  return fs.promises.realpath(path).catch(() => undefined);
}

/** A relative link, as the tools of the hub make them; one that is there already is replaced. */
export async function linkTo(target: string, link: string): Promise<void> {
  await fs.promises.rm(link, { force: true });
  await fs.promises.symlink(relative(dirname(link), target), link);
}
