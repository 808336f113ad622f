/** Finds model files: `file:` references in the configured folders, `hf:` references in the hub cache. No other folder is read. */
import { join } from 'node:path';
import type { Env } from '../../kit/env/env.ts';
import { readWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { type AdapterRef, formatModelRef, type HfRef, type ModelRef } from '../../model/model-ref.ts';
import { type GgufFacts, readGguf } from './gguf.ts';
import type { Hub } from './hub.ts';
import { cachedCommit, cachedFiles, chooseFile, repoFolder } from './hub-cache.ts';
import { fileInside, type PlainFile } from './links.ts';
import { hashFile } from './verify.ts';

export interface ModelFilesOptions {
  readonly env: Env;
  /** The folders in which a `file:` reference may point to a file. */
  readonly roots: readonly string[];
  readonly hubCache: string | undefined;
  /** Fetches models that are not in the cache; by default nothing is fetched. */
  readonly hub?: Hub | undefined;
}

export interface LocatedModel {
  /** The model reference with its revision and file pinned. */
  readonly ref: string;
  readonly file: string;
  readonly sizeBytes: number;
  readonly facts: GgufFacts;
}

export type LocatedAdapter = Pick<LocatedModel, 'file' | 'sizeBytes'>;

/** Enough for the metadata that is read: it comes before the long list of the tokenizer's words. */
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

  /** A LoRA file in the folders for models. `architecture` is that of its model, if it is known. */
  async locateAdapter(
    { path, sha256 }: AdapterRef,
    architecture: string | undefined,
  ): Promise<LocatedAdapter> {
    const file = await this.#inRoots(path, 'adapter');
    const facts = await this.#factsOf(file);
    if (!facts.isLora)
      throw new OrchdError(
        'ADAPTER_INVALID',
        'the file of the adapter is not a LoRA adapter in the format GGUF',
      );
    if (architecture !== undefined && facts.architecture !== architecture)
      throw new OrchdError(
        'ADAPTER_INVALID',
        `the adapter is for models of the architecture "${facts.architecture}", and this one is "${architecture}"`,
      );
    if (sha256 !== undefined) await this.#checkDigest(file, sha256);
    return { file: file.path, sizeBytes: file.size };
  }

  async #checkDigest({ path }: PlainFile, expected: string): Promise<void> {
    const { sha256 } = await hashFile(
      this.#options.env.disk,
      path,
      () => undefined,
      () => true,
    );
    if (sha256 !== expected)
      throw new OrchdError(
        'MODEL_UNVERIFIED',
        'the file of the adapter has another SHA-256 than the one given',
      );
  }

  async #inRoots(path: string, what = 'file'): Promise<PlainFile> {
    const file = await fileInside(path, this.#options.roots);
    // The same error whether or not the file exists elsewhere, so that callers cannot probe the disk.
    if (!file)
      throw new OrchdError(
        'MODEL_NOT_FOUND',
        `there is no such ${what} in the folders for models of this pool`,
      );
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
    // A snapshot is a link to a blob; a link that leads out of the cache is refused.
    const found = await fileInside(path, [cache]);
    if (!found) throw new OrchdError('MODEL_NOT_FOUND', 'the cache has this model, but not its file');
    return this.#located({ ...ref, rev: commit, file }, found);
  }

  async #located(ref: ModelRef, file: PlainFile): Promise<LocatedModel> {
    const facts = await this.#factsOf(file);
    return { ref: formatModelRef(ref), file: file.path, sizeBytes: file.size, facts };
  }

  async #factsOf({ path }: PlainFile): Promise<GgufFacts> {
    const header = await readWholeFile(this.#options.env.disk, path, HEADER_BYTES);
    return (header && readGguf(header)) ?? {};
  }
}
