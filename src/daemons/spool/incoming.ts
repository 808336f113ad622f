/**
 * The jobs that an agent knows to be waiting. It lists `incoming/` once and then follows the notifications of the file
 * system; now and then it lists again, since notifications can get lost. The order is that of the names.
 */
import type { Env } from '../../kit/env/env.ts';
import { FolderWatch } from '../../kit/folder-watch.ts';
import type { Logger } from '../../kit/logger.ts';
import { SortedList } from '../../kit/sorted-list.ts';
import { claimOrder, jobOfLock } from '../../spool/layout.ts';
import { isMissing } from '../../spool/plain-files.ts';
import type { Spool } from '../../spool/spool.ts';

/** How often the folder is listed again beside a working watch. */
const RELIST_MS = 30_000;
/** How often without one; and at least so many times the duration of a listing. */
const UNWATCHED_RELIST_MS = 500;
const REST_PER_LISTING = 10;

interface Known {
  /** It is in the list of those to be tried. */
  readonly isWaiting: boolean;
  /** Why it was refused: it is tried again at the next listing, since somebody may have corrected it. */
  readonly refusedWhy?: string | undefined;
}

export interface IncomingOptions {
  /** Called when a job may be waiting. */
  readonly onNews: () => void;
  /** Whether the agent is trying or running this job. */
  readonly isOurs: (name: string) => boolean;
}

export class IncomingJobs {
  readonly #env: Env;
  readonly #spool: Spool;
  readonly #logger: Logger;
  readonly #onNews: () => void;
  readonly #isOurs: (name: string) => boolean;
  readonly #known = new Map<string, Known>();
  readonly #waiting = new SortedList<string>((a, b) => claimOrder(a) < claimOrder(b));
  /** Names with a notification that was not looked at yet. */
  #noted = new Set<string>();
  /** Names that are not UTF-8 and were reported. */
  readonly #unreadable = new Set<string>();

  constructor(env: Env, spool: Spool, logger: Logger, { onNews, isOurs }: IncomingOptions) {
    this.#env = env;
    this.#spool = spool;
    this.#logger = logger;
    this.#onNews = onNews;
    this.#isOurs = isOurs;
  }

  /** The next job to try; it is forgotten, unless `keep` is called. */
  next(): { readonly name: string; readonly knownWhy: string | undefined } | undefined {
    const name = this.#waiting.first();
    if (name === undefined) return undefined;
    this.#waiting.remove(name);
    const knownWhy = this.#known.get(name)?.refusedWhy;
    this.#known.delete(name);
    return { name, knownWhy };
  }

  /** The job is there and cannot be had now: it is locked or, with a reason, refused. */
  keep(name: string, refusedWhy?: string): void {
    this.#known.set(name, { isWaiting: false, refusedWhy });
  }

  /** The job is to be tried. */
  add(name: string): void {
    const known = this.#known.get(name);
    if (known?.isWaiting || this.#isOurs(name)) return;
    this.#known.set(name, { isWaiting: true, refusedWhy: known?.refusedWhy });
    this.#waiting.add(name);
  }

  /** Lists and follows the folder until the signal is aborted. */
  async follow(signal: AbortSignal): Promise<void> {
    let watched: { readonly watch: FolderWatch; readonly identity: string } | undefined;
    let relistAt = 0;
    try {
      while (!signal.aborted) {
        const { clock } = this.#env;
        if (clock.monotonic() >= relistAt) {
          const startedAt = clock.monotonic();
          watched = await this.#rewatched(watched);
          await this.#list();
          const tookMs = clock.monotonic() - startedAt;
          const pauseMs = watched?.watch.isWatching ? RELIST_MS : UNWATCHED_RELIST_MS;
          relistAt = clock.monotonic() + Math.max(pauseMs, REST_PER_LISTING * tookMs);
        }
        if (watched) await watched.watch.wait(signal);
        else await new Promise<void>((resolve) => void this.#env.timers.after(UNWATCHED_RELIST_MS, resolve));
        this.#takeNoted();
      }
    } finally {
      watched?.watch.close();
    }
  }

  /** A watch of the folder that has the name now: somebody may have removed and made it again. */
  async #rewatched(
    watched: { readonly watch: FolderWatch; readonly identity: string } | undefined,
  ): Promise<{ readonly watch: FolderWatch; readonly identity: string } | undefined> {
    const { env, paths } = this.#spool;
    const identity = (await env.disk.lstat(paths.places.incoming))?.identity;
    if (watched && watched.identity === identity) return watched;
    watched?.watch.close();
    if (identity === undefined) return undefined;
    const watch = new FolderWatch(this.#env.timers, paths.places.incoming, (name) => {
      this.#noted.add(name);
      return true;
    });
    return { watch, identity };
  }

  #takeNoted(): void {
    if (this.#noted.size === 0) return;
    const noted = this.#noted;
    this.#noted = new Set();
    for (const name of noted) this.#onNotification(name);
    if (this.#waiting.size > 0) this.#onNews();
  }

  /**
   * Names come and go without telling which: one that is gone is found to be so when it is tried. A job that was refused
   * waits for the next listing: the try itself has made and removed its lock, and may have moved it there and back.
   */
  #onNotification(name: string): void {
    const job = jobOfLock(name);
    if (this.#known.get(job ?? name)?.refusedWhy !== undefined) return;
    if (job === undefined) this.add(name);
    else if (this.#known.has(job)) this.add(job);
  }

  async #list(): Promise<void> {
    const { env, paths } = this.#spool;
    const there = new Set<string>();
    try {
      for await (const piece of env.disk.entries(paths.places.incoming)) {
        for (const { name, isText } of piece) {
          if (!isText) this.#reportUnreadable(name);
          else if (jobOfLock(name) === undefined) there.add(name);
        }
      }
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#logger.critical('the folder of waiting jobs is missing', { address: paths.places.incoming });
    }
    for (const name of this.#known.keys()) if (!there.has(name)) this.#forget(name);
    for (const name of there) this.add(name);
    if (this.#waiting.size > 0) this.#onNews();
  }

  #forget(name: string): void {
    if (this.#known.get(name)?.isWaiting) this.#waiting.remove(name);
    this.#known.delete(name);
  }

  #reportUnreadable(name: string): void {
    if (this.#unreadable.has(name)) return;
    this.#unreadable.add(name);
    this.#logger.critical('a job in incoming is not run', { job_id: name, reason: 'its name is not UTF-8' });
  }
}
