/** Small units run several to a process: starting one and loading what it imports costs more than most of them. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const FILES_PER_PROCESS = 16;

/** Whoever does this could be disturbed by its neighbours, or disturb them, and has a process of its own. */
const NEEDS_OWN_PROCESS =
  /from 'node:(child_process|http|https|net|worker_threads|cluster)'|process\.(env\[[^\]]+\] =|chdir|memoryUsage|on\(|once\()/;

export interface Batch {
  readonly entry: string;
  readonly paths: readonly string[];
}

export interface Batches {
  /** Paths of the files with a process of their own. */
  readonly alone: readonly string[];
  readonly batches: readonly Batch[];
}

const mayShare = (root: string, path: string): boolean =>
  !NEEDS_OWN_PROCESS.test(readFileSync(join(root, path), 'utf8'));

/**
 * Each file of a batch becomes a suite with the path of the file as its name, so that its hooks stay its own, its time is
 * known, and one that cannot be loaded fails alone.
 */
export function batchesOf(
  root: string,
  paths: readonly string[],
  isUnit: (path: string) => boolean,
  folder: string,
): Batches {
  const together = new Set(paths.filter((path) => isUnit(path) && mayShare(root, path)));
  const alone = paths.filter((path) => !together.has(path));
  mkdirSync(folder, { recursive: true });
  const queue = [...together];
  const batches: Batch[] = [];
  while (queue.length > 0) {
    const some = queue.splice(0, FILES_PER_PROCESS);
    const entry = join(folder, `units-${batches.length + 1}.test.ts`);
    writeFileSync(entry, sourceOf(root, some));
    batches.push({ entry, paths: some });
  }
  return { alone, batches };
}

/** A test that waits for nothing but a timer of the product that lets a process end would be cancelled. */
const AWAKE = `const awake = setInterval(() => undefined, 2 ** 30);
after(() => clearInterval(awake));`;

function sourceOf(root: string, paths: readonly string[]): string {
  const suites = paths.map((path) => {
    const url = pathToFileURL(join(root, path)).href;
    return `suite(${JSON.stringify(path)}, async () => void (await import(${JSON.stringify(url)})));`;
  });
  // All are declared at once: hooks of the process, such as that of exit-watchdog.ts, run after the last one.
  return ["import { after, suite } from 'node:test';", AWAKE, ...suites, ''].join('\n');
}
