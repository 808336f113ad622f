/** Where the files of models lie. Only folders that were named in the configuration are ever looked into. */
import { join } from 'node:path';
import type { Env } from '../../kit/env/env.ts';
import { readWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { formatModelRef, type HfRef, type ModelRef } from '../../model/model-ref.ts';
import { type GgufFacts, readGguf } from './gguf.ts';
import type { Hub } from './hub.ts';
import { cachedCommit, cachedFiles, chooseFile, repoFolder } from './hub-cache.ts';
import { fileInside, type PlainFile } from './links.ts';

export interface ModelFilesOptions {
  readonly env: Env;
  /** Folders in which `file:` may point to something. */
  readonly roots: readonly string[];
  readonly hubCache: string | undefined;
  /** Where what is not in the cache comes from; nowhere by default. */
  readonly hub?: Hub | undefined;
}

export interface LocatedModel {
  /** With its revision and file pinned. */
  readonly ref: string;
  readonly file: string;
  readonly sizeBytes: number;
  readonly facts: GgufFacts;
}

/** Metadata comes first, and the numbers that count come before the words of the tokenizer. */
const HEADER_BYTES = 4 * 2 ** 20;

export class ModelFiles {
  readonly #options: ModelFilesOptions;

  constructor(options: ModelFilesOptions) {
    this.#options = options;
  }

  async locate(ref: ModelRef): Promise<LocatedModel> {
    if (ref.kind === 'file') return this.#located(ref, await this.#inRoots(ref.path));
    if (ref.kind === 'hf') return this.#inCache(ref);
    throw new OrchdError('MODEL_NOT_FOUND', `"${formatModelRef(ref)}" is the name of no file`);
  }

  async #inRoots(path: string): Promise<PlainFile> {
    const file = await fileInside(path, this.#options.roots);
    // Whether there is such a file elsewhere is nobody's business.
    if (!file)
      throw new OrchdError('MODEL_NOT_FOUND', 'there is no such file in the folders for models of this pool');
    return file;
  }

  async #inCache(ref: HfRef): Promise<LocatedModel> {
    const { env, hubCache, hub } = this.#options;
    if (hubCache === undefined) throw new OrchdError('MODEL_NOT_FOUND', 'this pool has no cache of the hub');
    const commit = await cachedCommit(env.disk, hubCache, ref);
    const files = commit === undefined ? [] : await cachedFiles(env.disk, hubCache, ref, commit);
    const isHere = ref.file === undefined ? files.length > 0 : files.includes(ref.file);
    if (commit === undefined || !isHere) {
      if (!hub) throw new OrchdError('MODEL_NOT_FOUND', 'the model is not in the cache of this pool');
      const fetched = await hub.fetch(ref, hubCache);
      return this.#pinned(ref, fetched.commit, fetched.file, hubCache);
    }
    return this.#pinned(ref, commit, chooseFile(files, ref), hubCache);
  }

  async #pinned(ref: HfRef, commit: string, file: string, cache: string): Promise<LocatedModel> {
    const path = join(repoFolder(cache, ref), 'snapshots', commit, file);
    // Links lead from snapshots to blobs, and may lead nowhere else.
    const found = await fileInside(path, [cache]);
    if (!found) throw new OrchdError('MODEL_NOT_FOUND', 'the cache has this model, but not its file');
    return this.#located({ ...ref, rev: commit, file }, found);
  }

  async #located(ref: ModelRef, { path, size }: PlainFile): Promise<LocatedModel> {
    const header = await readWholeFile(this.#options.env.disk, path, HEADER_BYTES);
    const facts = (header && readGguf(header)) ?? {};
    return { ref: formatModelRef(ref), file: path, sizeBytes: size, facts };
  }
}
