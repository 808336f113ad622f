/** Symbolic links, which the Disk of kit/env has no functions for: resolves them safely, and makes those of the cache. */
import fs from 'node:fs';
import { dirname, relative, sep } from 'node:path';

export interface PlainFile {
  /** The real path, with all links resolved. */
  readonly path: string;
  readonly size: number;
}

/** The real file behind `path` if it is a plain file inside one of the `roots`; otherwise undefined. */
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

/** Makes or replaces a relative link, as the Hugging Face tools do. */
export async function linkTo(target: string, link: string): Promise<void> {
  await fs.promises.rm(link, { force: true });
  await fs.promises.symlink(relative(dirname(link), target), link);
}
