/** The manager of a spool: queues stale and failed jobs again, after a pause that grows, and kills those without retries. */
import { join } from 'node:path';
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { Actor } from '../../spool/actor.ts';
import { readLifecycle } from '../../spool/job-folder.ts';
import { namesIn } from '../../spool/plain-files.ts';
import { settleOwn } from '../../spool/repair.ts';
import { RETRIED_PLACES, type RetriedPlace, retryJob } from '../../spool/retry.ts';
import type { Spool } from '../../spool/spool.ts';

/** After this time a job is looked at again that is a brain's to retry, or that somebody has to correct. */
const LEFT_LOOK_MS = 600_000;

export interface ManagerOptions {
  readonly env: Env;
  readonly spool: Spool;
  readonly intervalMs: number;
  /** The pause before a retry. */
  readonly backoff: BackoffPolicy;
}

export class SpoolManager extends Service {
  readonly #options: ManagerOptions;
  /** When each job that was seen may be retried, by the monotonic clock; by its path. */
  #dueAt = new Map<string, number>();
  #actor: Actor | undefined;
  #working: Promise<void> | undefined;

  constructor(options: ManagerOptions) {
    super();
    this.#options = options;
  }

  protected async onStart(): Promise<void> {
    this.#actor = await Actor.open(this.#options.spool, 'manager');
    this.#working = this.#workAgain();
  }

  protected async onStop(): Promise<void> {
    await this.#working;
    await this.#actor?.close();
  }

  async #workAgain(): Promise<void> {
    const { env, intervalMs } = this.#options;
    while (!this.stopSignal.aborted) {
      await this.#work().catch((error: unknown) => this.#complain(error));
      await pause(env.timers, intervalMs, this.stopSignal);
    }
  }

  async #work(): Promise<void> {
    const { spool } = this.#options;
    if ((await this.#actor?.touch()) === 'fenced') this.#actor = await Actor.open(spool, 'manager');
    await settleOwn(this.#actor as Actor);
    const seen = new Map<string, number>();
    for (const place of RETRIED_PLACES)
      for (const name of await namesIn(spool.env.disk, spool.paths.places[place])) {
        if (this.stopSignal.aborted) return;
        await this.#look(place, name, seen).catch((error: unknown) => this.#complain(error, name));
      }
    this.#dueAt = seen;
  }

  async #look(place: RetriedPlace, name: string, seen: Map<string, number>): Promise<void> {
    const { env, spool } = this.#options;
    const path = join(spool.paths.places[place], name);
    const dueAt = this.#dueAt.get(path) ?? (await this.#dueAtOf(path));
    seen.set(path, dueAt);
    if (env.clock.monotonic() < dueAt) return;
    const outcome = await retryJob(this.#actor as Actor, place, name);
    if (outcome === 'left') seen.set(path, env.clock.monotonic() + LEFT_LOOK_MS);
    else seen.delete(path);
  }

  /** By the wall clock a job may have waited for any time, also a negative one: it waits for one pause at most. */
  async #dueAtOf(path: string): Promise<number> {
    const { env, spool, backoff } = this.#options;
    const now = env.clock.monotonic();
    const read = await readLifecycle(spool, path);
    if (read.is !== 'read') return now;
    const { retry_count, max_retries, changed_at } = read.lifecycle;
    if (retry_count >= max_retries) return now;
    const fullMs = backoffMs(backoff, retry_count + 1, env.random.next());
    const waitedMs = changed_at === undefined ? 0 : env.clock.now() - Date.parse(changed_at);
    return now + fullMs - (waitedMs > 0 ? Math.min(waitedMs, fullMs) : 0);
  }

  #complain(error: unknown, name?: string): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#options.spool.logger.error('a job could not be retried', {
      actor: this.#actor?.id,
      job_id: name,
      error_code: diskErrorCode(error),
      reason,
    });
  }
}
