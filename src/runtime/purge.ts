/**
 * Deletes jobs from the history that ended longer ago than `historyMs`, but none below a job that lives or ended later
 * than that; charges that were settled before `usageMs`,
 * archived sessions whose retention is over, and keys of sessions of which nothing is left.
 */
import type { Store } from '../core/ports/store.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import type { Bodies } from './bodies.ts';
import type { BrainClock } from './brain-clock.ts';
import { jobsToKeep } from './jobs-to-keep.ts';
import { KeySweep } from './key-sweep.ts';
import type { Loop } from './loop.ts';
import type { RuntimeSettings } from './parts.ts';
import type { SessionArchive } from './session-archive.ts';

/** Jobs deleted in one call of the store, which is blocked meanwhile. */
const BATCH_JOBS = 5000;
/** Charges deleted in one call. */
const BATCH_CHARGES = 5000;

type RetentionSettings = Pick<RuntimeSettings, 'historyMs' | 'usageMs'>;

interface PurgeParts {
  readonly sessionArchive?: Pick<SessionArchive, 'purge'>;
  readonly logger?: Logger | undefined;
  /** Without it, no key is dropped. */
  readonly bodies?: Bodies;
}

export class Purge {
  readonly #loop: Loop;
  readonly #store: Store;
  readonly #clock: BrainClock;
  readonly #settings: RetentionSettings;
  readonly #more: PurgeParts;
  readonly #keys: KeySweep | undefined;
  readonly #monotonic: () => number;
  #countedAt: number;
  #running = false;

  constructor(
    env: Pick<Env, 'clock'>,
    loop: Loop,
    store: Store,
    clock: BrainClock,
    settings: RetentionSettings,
    more: PurgeParts = {},
  ) {
    this.#more = more;
    this.#monotonic = () => env.clock.monotonic();
    this.#countedAt = this.#monotonic();
    this.#loop = loop;
    this.#store = store;
    this.#clock = clock;
    this.#settings = settings;
    this.#keys = more.bodies && new KeySweep(loop, store, more.bodies);
  }

  /** Counts the rest of a purge down by the time that this brain has run; returns whether it is over. */
  async #isRested(): Promise<boolean> {
    const now = this.#monotonic();
    const elapsed = now - this.#countedAt;
    this.#countedAt = now;
    const restMs = this.#loop.engine.state.brain?.purgeRestMs ?? 0;
    if (restMs === 0) return true;
    await this.#loop.ask({ type: 'rest-purge', restMs: Math.max(0, Math.floor(restMs - elapsed)) });
    return false;
  }

  /** Logs a failure: the next purge tries again. */
  async runOrWarn(): Promise<void> {
    try {
      await this.run();
    } catch (error) {
      this.#more.logger?.warn('the purge failed', { reason: describeThrown(error as Error) });
    }
  }

  /** Only one purge runs at a time: a second would delete jobs that only the first has planned for. */
  async run(): Promise<void> {
    if (this.#running || !this.#clock.mayExpire()) return;
    this.#running = true;
    try {
      if (!(await this.#isRested())) return;
      const now = this.#clock.now();
      await this.#deleteOld(now);
      await this.#dropCharges(now - this.#settings.usageMs);
      await this.#more.sessionArchive?.purge(now);
      await this.#keys?.run();
    } finally {
      this.#running = false;
    }
  }

  async #deleteOld(now: number): Promise<void> {
    const endedBefore = now - this.#settings.historyMs;
    while (!this.#loop.failure) {
      const plan = await this.#store.planPurge(endedBefore, BATCH_JOBS);
      // The attempt floor must be durable before the attempts below it are deleted, so that no attempt number is used
      // again.
      await this.#loop.ask({ type: 'purge', attemptFloor: plan.attemptFloor, endedBefore });
      const kept = jobsToKeep(plan.below, endedBefore, now, this.#loop.engine.state.jobs);
      await this.#store.purge(endedBefore, BATCH_JOBS, now, kept);
      if (plan.jobs < BATCH_JOBS) return;
    }
  }

  /** By the instant of settlement alone: a purge of jobs deletes no charge, and no sum of a later time changes. */
  async #dropCharges(settledBefore: number): Promise<void> {
    while (!this.#loop.failure) {
      if ((await this.#store.dropCharges(settledBefore, BATCH_CHARGES)) < BATCH_CHARGES) return;
    }
  }
}
