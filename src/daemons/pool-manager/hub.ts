/**
 * Fetches models from a hub into the cache: asks which commit and files a revision means, and downloads one file.
 * Off unless an endpoint is configured.
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
  /** Hosts, with their ports, that a download may be sent on to. */
  readonly redirectHosts: readonly string[];
  /** For the names of unfinished files: two managers may share a cache. */
  readonly registry: string;
}

export interface Fetched {
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
/** A caller is told to come again after this; the fetch goes on meanwhile. */
const WAIT_MS = 20_000;
const COME_AGAIN_MS = 5000;

export class Hub {
  readonly #options: HubOptions;
  readonly #target: Target;
  readonly #fetches = new Map<string, { done: Promise<Fetched>; download: Download }>();

  constructor(options: HubOptions) {
    this.#options = options;
    this.#target = options.outbound.to(options.endpoint);
  }

  /** Those who want the same wait for the same fetch. */
  async fetch(ref: HfRef, cache: string): Promise<Fetched> {
    const key = JSON.stringify([ref.org, ref.repo, ref.rev, ref.file]);
    let fetch = this.#fetches.get(key);
    if (!fetch) {
      if (this.#fetches.size >= MAX_FETCHES) {
        throw comeAgain(`${MAX_FETCHES} models are being fetched already`);
      }
      const download = new Download(this.#options, this.#target);
      const done = this.#fetch(ref, cache, download).finally(() => this.#fetches.delete(key));
      done.catch(() => undefined);
      fetch = { done, download };
      this.#fetches.set(key, fetch);
    }
    const fetched = await within(this.#options.env.timers, WAIT_MS, fetch.done, 'late');
    if (fetched !== 'late') return fetched;
    throw comeAgain(`the model is being fetched, ${fetch.download.bytes} bytes so far`);
  }

  async #fetch(ref: HfRef, cache: string, download: Download): Promise<Fetched> {
    const { sha, siblings } = await this.#revision(ref);
    const file = chooseFile(safeNames(siblings), ref);
    const folder = repoFolder(cache, ref);
    const { disk } = this.#options.env;
    const blobs = join(folder, 'blobs');
    const link = join(folder, 'snapshots', sha, file);
    for (const each of [blobs, dirname(link)]) await disk.makeFolder(each);
    const path = `/${ref.org}/${ref.repo}/resolve/${sha}/${file.split('/').map(encodeURIComponent).join('/')}`;
    const blob = await download.to(blobs, path);
    await linkTo(blob, link);
    await disk.syncFolder(dirname(link));
    await this.#remember(folder, ref, sha);
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

  /** A name of a branch leads to its commit; last, when everything it leads to is there. */
  async #remember(folder: string, ref: HfRef, sha: string): Promise<void> {
    const rev = ref.rev ?? 'main';
    if (COMMIT.test(rev)) return;
    const { disk } = this.#options.env;
    const path = join(folder, 'refs', rev);
    await disk.makeFolder(dirname(path));
    const temporary = `${path}.${this.#options.registry}.incomplete`;
    await writeWholeFile(disk, path, sha, { temporary });
  }
}

/** Names become paths here: those that could lead elsewhere are left out. */
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

const comeAgain = (what: string): OrchdError =>
  new OrchdError('POOL_UNAVAILABLE', what, { retryAfterMs: COME_AGAIN_MS, reason: 'fetching' });
