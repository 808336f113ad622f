/**
 * Reads the cache folder of the Hugging Face tools: `models--org--repo` with `refs/<branch>` files that contain a
 * commit, `snapshots/<commit>/…` with links, and `blobs` with the files that the links point to.
 */
import { join } from 'node:path';
import type { Disk } from '../../kit/env/env.ts';
import { readWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import type { HfRef } from '../../model/model-ref.ts';

export const COMMIT = /^[0-9a-f]{40}$/;
const MAX_REF_BYTES = 100;
/** Maximum number of files of a snapshot that are listed. */
const MAX_FILES = 10_000;
const MAX_DEPTH = 8;

export const repoFolder = (cache: string, { org, repo }: HfRef): string =>
  join(cache, `models--${org}--${repo}`);

/** The commit of a revision in this cache; undefined where the revision was never fetched. */
export async function cachedCommit(disk: Disk, cache: string, ref: HfRef): Promise<string | undefined> {
  const rev = ref.rev ?? 'main';
  if (COMMIT.test(rev)) return rev;
  const path = join(repoFolder(cache, ref), 'refs', rev);
  const text = await shortText(disk, path);
  return text !== undefined && COMMIT.test(text) ? text : undefined;
}

/** The files of a snapshot, by their paths in the repository. */
export async function cachedFiles(disk: Disk, cache: string, ref: HfRef, commit: string): Promise<string[]> {
  const found: string[] = [];
  const walk = async (folder: string, prefix: string, depth: number): Promise<void> => {
    for (const name of await listed(disk, folder)) {
      if (found.length >= MAX_FILES) return;
      const path = join(folder, name);
      const stat = await disk.stat(path).catch(() => undefined);
      if (stat?.isFolder && depth < MAX_DEPTH) await walk(path, `${prefix}${name}/`, depth + 1);
      else if (stat && !stat.isFolder) found.push(`${prefix}${name}`);
    }
  };
  await walk(join(repoFolder(cache, ref), 'snapshots', commit), '', 0);
  return found;
}

/** The file named in `ref`; otherwise a Q4_K_M quantization, or the first .gguf file by name. Deterministic. */
export function chooseFile(files: readonly string[], ref: HfRef): string {
  if (ref.file !== undefined) {
    if (files.includes(ref.file)) return ref.file;
    throw new OrchdError('MODEL_NOT_FOUND', `the repository has no file "${ref.file}" at this revision`);
  }
  const models = files.filter((path) => path.toLowerCase().endsWith('.gguf') && isModel(path)).sort();
  const chosen = models.find((path) => /q4_k_m/i.test(path)) ?? models[0];
  if (chosen === undefined) throw new OrchdError('MODEL_NOT_FOUND', 'the repository has no .gguf file here');
  return chosen;
}

/** Whether the file is a model: of a split model only the first part counts, and an mmproj file is not a model by itself. */
function isModel(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  const part = /-(\d{5})-of-\d{5}\.gguf$/.exec(name);
  return !name.startsWith('mmproj') && (part === null || part[1] === '00001');
}

async function listed(disk: Disk, folder: string): Promise<string[]> {
  return disk.list(folder).catch(() => []);
}

async function shortText(disk: Disk, path: string): Promise<string | undefined> {
  const bytes = await readWholeFile(disk, path, MAX_REF_BYTES).catch(() => undefined);
  return bytes?.toString('latin1').trim();
}
