/**
 * Fetches models from a Hugging Face hub into the cache: resolves a revision to its commit and files, and downloads one
 * file. Off unless `hf_endpoint` is configured.
 */
import { dirname, join } from 'node:path';
import { type Static, Type } from 'typebox';
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { writeWholeFile } from '../../kit/whole-file.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { type HfRef, parseModelRef } from '../../model/model-ref.ts';
import { parseJsonBody } from '../../wire/json-body.ts';
import type { Outbound, Target } from '../../wire/outbound.ts';
import { Download } from './download.ts';
import { COMMIT, chooseFile, repoFolder } from './hub-cache.ts';
import { linkTo } from './links.ts';

export interface HubOptions {
  readonly env: Env;
  readonly outbound: Outbound;
  readonly logger: Logger;
  readonly endpoint: string;
  /** Hosts, with their ports, to which the hub may redirect a download. */
  readonly redirectHosts: readonly string[];
  /** Part of the names of unfinished files, because two managers may share a cache. */
  readonly registry: string;
}

export interface FetchedModel {
  readonly commit: string;
  readonly file: string;
}

const Revision = Type.Object(
  {
    sha: Type.String({ pattern: COMMIT.source }),
    siblings: Type.Array(Type.Object({ rfilename: Type.String() }, { additionalProperties: true }), {
      maxItems: 100_000,
    }),
  },
  { additionalProperties: true },
);
const checkRevision = checker(Revision);

const MAX_FETCHES = 4;
/** How long a caller waits for a fetch. After that it is told to retry; the fetch goes on meanwhile. */
const CALLER_WAIT_MS = 20_000;
const RETRY_AFTER_MS = 5000;

export class Hub {
  readonly #options: HubOptions;
  readonly #target: Target;
  readonly #fetches = new Map<string, { done: Promise<FetchedModel>; download: Download }>();

  constructor(options: HubOptions) {
    this.#options = options;
    this.#target = options.outbound.to(options.endpoint);
  }

  /** Concurrent calls for the same model share one fetch. */
  async fetch(ref: HfRef, cache: string): Promise<FetchedModel> {
    const key = JSON.stringify([ref.org, ref.repo, ref.rev, ref.file]);
    let fetch = this.#fetches.get(key);
    if (!fetch) {
      if (this.#fetches.size >= MAX_FETCHES) {
        throw retryLater(`${MAX_FETCHES} models are being fetched already`);
      }
      const download = new Download(this.#options, this.#target);
      const done = this.#fetch(ref, cache, download).finally(() => this.#fetches.delete(key));
      done.catch(() => undefined);
      fetch = { done, download };
      this.#fetches.set(key, fetch);
    }
    const fetched = await within(this.#options.env.timers, CALLER_WAIT_MS, fetch.done, 'late');
    if (fetched !== 'late') return fetched;
    throw retryLater(`the model is being fetched, ${fetch.download.bytes} bytes so far`);
  }

  async #fetch(ref: HfRef, cache: string, download: Download): Promise<FetchedModel> {
    const { sha, siblings } = await this.#revision(ref);
    const file = chooseFile(safeNames(siblings), ref);
    const folder = repoFolder(cache, ref);
    const { disk } = this.#options.env;
    const blobs = join(folder, 'blobs');
    const link = join(folder, 'snapshots', sha, file);
    for (const each of [blobs, dirname(link)]) await disk.makeFolder(each);
    const path = `/${ref.org}/${ref.repo}/resolve/${sha}/${file.split('/').map(encodeURIComponent).join('/')}`;
    const blob = await download.save(blobs, path);
    await linkTo(blob, link);
    await disk.syncFolder(dirname(link));
    await this.#writeRef(folder, ref, sha);
    this.#options.logger.info('a model was fetched', { bytes: download.bytes });
    return { commit: sha, file };
  }

  async #revision(ref: HfRef): Promise<Static<typeof Revision>> {
    const rev = (ref.rev ?? 'main').split('/').map(encodeURIComponent).join('%2F');
    const { status, body } = await this.#target.request({
      path: `/api/models/${ref.org}/${ref.repo}/revision/${rev}`,
    });
    if (status !== 200) throw new OrchdError('MODEL_NOT_FOUND', `the hub answered ${status} for this model`);
    try {
      return checkRevision(parseJsonBody(body));
    } catch {
      throw new OrchdError('MODEL_NOT_FOUND', 'the hub answered with something else than a model');
    }
  }

  /** Writes the `refs` file that maps a branch to its commit. It comes last, when the commit's files are in place. */
  async #writeRef(folder: string, ref: HfRef, sha: string): Promise<void> {
    const rev = ref.rev ?? 'main';
    if (COMMIT.test(rev)) return;
    const { disk } = this.#options.env;
    const path = join(folder, 'refs', rev);
    await disk.makeFolder(dirname(path));
    const temporary = `${path}.${this.#options.registry}.incomplete`;
    await writeWholeFile(disk, path, sha, { temporary });
  }
}

/** The file names of a repository that are safe as paths; the others are left out. */
function safeNames(siblings: readonly { readonly rfilename: string }[]): string[] {
  return siblings
    .map(({ rfilename }) => rfilename)
    .filter((name) => {
      try {
        return parseModelRef(`hf:a/b::file=${name}`).kind === 'hf';
      } catch {
        return false;
      }
    });
}

const retryLater = (what: string): OrchdError =>
  new OrchdError('POOL_UNAVAILABLE', what, { retryAfterMs: RETRY_AFTER_MS, reason: 'fetching' });
