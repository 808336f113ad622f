/**
 * The upstreams of a brain: servers with an OpenAI-compatible API that somebody else runs. Each becomes a backend with
 * all models of its upstream. Those of an earlier start that are not configured any more are followed until nothing of
 * theirs runs.
 */
import { join } from 'node:path';
import type { BackendListener, BackendSource } from '../../core/ports/backend.ts';
import type { Env } from '../../kit/env/env.ts';
import { claimCopy, claimFolder, setAside } from '../../kit/folder-identity.ts';
import type { Logger } from '../../kit/logger.ts';
import { CatalogClashes } from '../executors/catalog-clashes.ts';
import type { UpstreamSettings } from './settings.ts';
import { UpstreamLink } from './upstream-link.ts';

export interface UpstreamSourceOptions {
  readonly env: Env;
  readonly logger: Logger;
  /** The folder of all executors, one below for each upstream. */
  readonly folder: string;
  readonly upstreams: readonly UpstreamSettings[];
  readonly node: string | undefined;
  /** The folder is a copy: the executors that it names belong to the brain of the original. */
  readonly isCopy: boolean;
  readonly maxStreams: number;
  /** Whether a model of the catalog has this name: it is used instead of that of the upstream. */
  readonly isInCatalog: (name: string) => Promise<boolean>;
}

const EXECUTORS = 'executors';

export class UpstreamSource implements BackendSource {
  readonly #options: UpstreamSourceOptions;
  readonly #links = new Map<string, UpstreamLink>();
  readonly #begun = Promise.withResolvers<void>();
  readonly #clashes: CatalogClashes;
  #beginning: Promise<void> | undefined;
  #stopped = false;

  constructor(options: UpstreamSourceOptions) {
    this.#options = options;
    this.#clashes = new CatalogClashes({
      ...options,
      whose: 'an upstream',
      next: 'give one of them another name: "rename" of the upstream in the configuration',
    });
  }

  /** Names of the models of all upstreams, as last reported. */
  get models(): readonly string[] {
    return [...new Set([...this.#links.values()].flatMap((link) => link.models))];
  }

  /** Settles when every upstream has answered once, or is known to be away. */
  async firstReports(): Promise<void> {
    await this.#begun.promise;
    const configured = this.#options.upstreams.map(({ name }) => this.#links.get(name)?.firstReport);
    await Promise.all(configured);
  }

  start(listener: BackendListener): void {
    this.#beginning = this.#begin({
      present: (backend) => {
        listener.present(backend);
        void this.#clashes.warn(backend);
      },
      gone: (name) => listener.gone(name),
      free: (name) => listener.free(name),
    })
      .catch((error: Error) =>
        this.#options.logger.error('the upstreams cannot be used', { reason: error.message }),
      )
      .finally(() => this.#begun.resolve());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#beginning;
    await Promise.all([...this.#links.values()].map((link) => link.stop()));
  }

  forget(backend: string): void {
    this.#links.get(backend)?.forget();
  }

  async #begin(listener: BackendListener): Promise<void> {
    const { env, folder, upstreams, isCopy } = this.#options;
    if (upstreams.length === 0 && !(await env.disk.stat(folder))) return;
    await openUpstreamsFolder(env, folder, isCopy);
    const settings = new Map(upstreams.map((each) => [each.name, each]));
    const names = new Set([...settings.keys(), ...(await env.disk.list(join(folder, EXECUTORS)))]);
    for (const name of names) {
      if (this.#stopped) return;
      const link = new UpstreamLink({
        ...this.#options,
        name,
        settings: settings.get(name),
        folder: join(folder, EXECUTORS, name),
      });
      this.#links.set(name, link);
      link.start(listener);
    }
  }
}

/** A copied folder is begun anew: its executors belong to the brain of the original. */
export async function openUpstreamsFolder(env: Env, folder: string, isCopy: boolean): Promise<void> {
  await env.disk.makeFolder(folder);
  if (isCopy) {
    await setAside(env, folder, [join(folder, EXECUTORS)]);
    await claimCopy(env, folder);
  } else await claimFolder(env, folder);
  await env.disk.makeFolder(join(folder, EXECUTORS));
}
