/**
 * The agent of a spool: claims jobs in order, runs them, and commits what they end with.
 *
 * A1  A job that the agent has is run, returned or committed; where the disk refuses that, it is tried again until it
 *     works. What is left when the process ends is for a watchdog.
 * A2  An agent that finds its folder gone was taken for dead. It drops its jobs and goes on under another id.
 */
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import { type Cancel, diskErrorCode, type Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { within } from '../../kit/within.ts';
import { Actor } from '../../spool/actor.ts';
import { commitJob, saveResult } from '../../spool/commit.ts';
import type { Envelope } from '../../spool/envelope.ts';
import { lockPath } from '../../spool/layout.ts';
import { type LoadOutcome, loadJob, returnJob } from '../../spool/load.ts';
import { releaseLock, releaseOwnLock } from '../../spool/lock.ts';
import type { Spool } from '../../spool/spool.ts';
import type { JobHandler } from './handler.ts';
import { IncomingJobs } from './incoming.ts';
import { AFTER_LOSS, type JobEnd, NOT_BEGUN, RunningJob } from './running-job.ts';

/** Heartbeats within the time after which an agent that nobody can ask for is taken for dead. */
const HEARTBEATS_PER_TTL = 4;
/** How often an agent looks whether the end of a job was ordered. */
const KILL_LOOK_MS = 500;
/** The pauses after which a disk that has refused something is tried again. */
const DISK_RETRY: BackoffPolicy = { baseDelayMs: 200, maxDelayMs: 10_000, jitter: 0.5 };

export interface AgentOptions {
  readonly env: Env;
  readonly spool: Spool;
  readonly handler: JobHandler;
  readonly name?: string | undefined;
  readonly slots: number;
  /** The longest that a job may run; undefined means as long as it takes. */
  readonly timeoutMs?: number | undefined;
  /** How long running jobs may go on after a stop; then they are ended, and go back to the queue. */
  readonly stopGraceMs: number;
}

export class SpoolAgent extends Service {
  readonly #options: AgentOptions;
  readonly #logger: Logger;
  readonly #incoming: IncomingJobs;
  readonly #running = new Map<string, RunningJob>();
  /** Jobs that are being tried or run, each with the end of that. */
  readonly #inHand = new Map<string, Promise<void>>();
  /** Jobs that have ended and whose place is missing, or something else's, each with the next try. */
  readonly #blocked = new Map<string, () => Promise<void>>();
  #actor: Actor | undefined;
  #reopening: Promise<void> | undefined;
  #following: Promise<void> | undefined;
  #cancels: Cancel[] = [];
  /** Ends the wait for each job whose `prompt.json` may still be written. */
  readonly #unsettled = new Set<Cancel>();
  /** The disk has refused something so many times in a row. */
  #refusals = 0;
  #isResting = false;
  /** The agent was stopped, and the time that running jobs had to end is over. */
  #isEnding = false;

  constructor(options: AgentOptions) {
    super();
    this.#options = options;
    this.#logger = options.spool.logger;
    const { env, spool } = options;
    this.#incoming = new IncomingJobs(env, spool, this.#logger, {
      onNews: () => this.#fill(),
      isOurs: (name) => this.#inHand.has(name),
    });
  }

  /** The id under which the agent works now. */
  get id(): string | undefined {
    return this.#actor?.id;
  }

  protected async onStart(): Promise<void> {
    const { env, spool } = this.#options;
    await this.#open();
    const beatMs = spool.settings.foreignLockTtlMs / HEARTBEATS_PER_TTL;
    this.#cancels = [
      every(env.timers, beatMs, () => void this.#beat()),
      every(env.timers, KILL_LOOK_MS, () => void this.#lookForKills()),
    ];
    this.#following = this.#follow();
  }

  protected async onStop(): Promise<void> {
    const { env, stopGraceMs } = this.#options;
    await this.#following;
    const idle = (): Promise<unknown> => Promise.all(this.#inHand.values());
    await within(env.timers, stopGraceMs, idle(), undefined);
    this.#isEnding = true;
    for (const job of this.#running.values()) job.stop('agent stopped');
    await idle();
    for (const cancel of [...this.#cancels, ...this.#unsettled]) cancel();
    await this.#actor
      ?.close()
      .catch((error: unknown) => this.#complain('the agent could not tidy up', error));
  }

  async #open(): Promise<void> {
    const { spool, name, slots } = this.#options;
    this.#actor = await Actor.open(spool, 'agent', name, slots);
  }

  /** Follows `incoming/` until the stop; a disk that fails is tried again. */
  async #follow(): Promise<void> {
    const { timers } = this.#options.env;
    while (!this.stopSignal.aborted) {
      try {
        await this.#incoming.follow(this.stopSignal);
      } catch (error) {
        this.#complain('the folder of waiting jobs could not be read', error);
        await pause(timers, DISK_RETRY.maxDelayMs, this.stopSignal);
      }
    }
  }

  /** Tries waiting jobs while there are free slots. */
  #fill(): void {
    while (!this.stopSignal.aborted && !this.#isResting && this.#inHand.size < this.#options.slots) {
      const next = this.#incoming.next();
      if (!next) return;
      const { name, knownWhy } = next;
      const work = this.#work(name, knownWhy).finally(() => {
        this.#inHand.delete(name);
        this.#fill();
      });
      this.#inHand.set(name, work);
    }
  }

  async #work(name: string, knownWhy: string | undefined): Promise<void> {
    await this.#reopening;
    const actor = this.#actor as Actor;
    try {
      const outcome = await this.#load(actor, name, knownWhy);
      if (outcome?.is === 'loaded') await this.#run(actor, outcome.envelope);
      else if (outcome) await this.#leave(actor, name, outcome);
    } catch (error) {
      this.#complain('a job could not be brought to its end', error, name);
    }
  }

  async #load(actor: Actor, name: string, knownWhy: string | undefined): Promise<LoadOutcome | undefined> {
    try {
      const { syncs } = this.#options.spool;
      const outcome = await syncs.during(() => loadJob(actor, name, knownWhy));
      this.#refusals = 0;
      return outcome;
    } catch (error) {
      this.#complain('a job could not be tried', error, name);
      this.#incoming.keep(name);
      await this.#rest(name, async () => {
        await returnJob(actor, name);
        await releaseOwnLock(actor, name);
      });
      return undefined;
    }
  }

  async #leave(actor: Actor, name: string, outcome: Exclude<LoadOutcome, { is: 'loaded' }>): Promise<void> {
    if (outcome.is === 'locked') await this.#leaveLocked(actor, name);
    else if (outcome.is === 'refused') this.#incoming.keep(name, outcome.why);
    else if (outcome.is === 'unsettled') this.#tryAfter(outcome.waitMs, name);
    else if (outcome.is === 'fenced') {
      await this.#reopen(actor);
      this.#incoming.keep(name);
      this.#tryAgain(name);
    }
  }

  /**
   * A lock that went while the job was being looked at was noticed by nobody. One of this agent's own was released while
   * somebody had it aside, who has put it back: nobody else would remove it.
   */
  async #leaveLocked(actor: Actor, name: string): Promise<void> {
    const { env, spool } = this.#options;
    this.#incoming.keep(name);
    if (!this.#blocked.has(name)) await releaseOwnLock(actor, name);
    if (!(await env.disk.lstat(lockPath(spool.paths, name)))) this.#tryAgain(name);
  }

  #tryAfter(waitMs: number, name: string): void {
    const cancel = this.#options.env.timers.after(waitMs, () => {
      this.#unsettled.delete(cancel);
      this.#tryAgain(name);
    });
    this.#unsettled.add(cancel);
  }

  #tryAgain(name: string): void {
    this.#options.env.timers.soon(() => {
      this.#incoming.add(name);
      this.#fill();
    });
  }

  async #run(actor: Actor, envelope: Envelope): Promise<void> {
    const { env, spool, handler, timeoutMs } = this.#options;
    const job = new RunningJob(env, envelope, handler);
    this.#running.set(job.name, job);
    try {
      // A job that was being claimed meanwhile is not begun.
      const end: JobEnd = this.#isEnding ? NOT_BEGUN : await job.run(timeoutMs);
      const commit = (): Promise<void> => spool.syncs.during(() => this.#commit(actor, job, end));
      await this.#untilTheDiskAgrees(job.name, commit);
    } finally {
      this.#running.delete(job.name);
    }
  }

  async #commit(actor: Actor, job: RunningJob, end: JobEnd): Promise<void> {
    const { envelope, name } = job;
    if (end.is === 'returned') return this.#giveBack(actor, envelope, end);
    const outcome = end.is === 'lost' ? 'lost' : await this.#commitEnd(actor, envelope, end);
    // Where somebody has removed the folder of the agent in `tmp/`, its job is still there, and nobody else's.
    if (end.is === 'lost') {
      await this.#giveBack(actor, envelope, AFTER_LOSS);
      this.#tryAgain(name);
    }
    // No watchdog moves it while this process lives, and somebody may clear its place.
    if (outcome === 'blocked') this.#blocked.set(name, () => this.#commit(actor, job, end));
    if (outcome === 'lost')
      this.#logger.warn('a job was taken from this agent, which was taken for dead', {
        actor: actor.id,
        job_id: name,
      });
  }

  async #giveBack(
    actor: Actor,
    envelope: Envelope,
    { reason, hasBegun }: Extract<JobEnd, { is: 'returned' }>,
  ): Promise<void> {
    // A job of a brain that was begun is not begun again without the brain's decision.
    if (hasBegun && envelope.lifecycle.token !== undefined) {
      await commitJob(actor, envelope, 'stale', { reason });
      return;
    }
    await returnJob(actor, envelope.runtime.name, reason);
    await releaseLock(actor, envelope.runtime.lock);
  }

  async #commitEnd(
    actor: Actor,
    envelope: Envelope,
    end: Extract<JobEnd, { is: 'succeeded' | 'failed' | 'killed' }>,
  ): Promise<string> {
    if (end.is !== 'succeeded') {
      const { is, reason, changes } = end;
      return commitJob(actor, envelope, is, { ...changes, reason });
    }
    if (envelope.runtime.isFinished) return commitJob(actor, envelope, 'succeeded');
    try {
      if ((await saveResult(actor, envelope, end.result)) === 'lost') return 'lost';
    } catch (error) {
      if (diskErrorCode(error) !== undefined) throw error;
      return commitJob(actor, envelope, 'failed', { reason: `its result cannot be kept: ${textOf(error)}` });
    }
    return commitJob(actor, envelope, 'succeeded');
  }

  /** A1. */
  async #untilTheDiskAgrees(name: string, write: () => Promise<void>): Promise<void> {
    const { env } = this.#options;
    for (let n = 1; ; n++) {
      try {
        return await write();
      } catch (error) {
        if (diskErrorCode(error) === undefined) throw error;
        this.#complain('the end of a job could not be written; it is tried again', error, name);
        if (this.stopSignal.aborted) return;
        await pause(env.timers, backoffMs(DISK_RETRY, n, env.random.next()), this.stopSignal);
      }
    }
  }

  /** After an error of the disk no job is tried for a while. A1: what the error has left with the agent is returned then. */
  async #rest(name: string, giveBack: () => Promise<void>): Promise<void> {
    const { env } = this.#options;
    this.#isResting = true;
    await pause(env.timers, backoffMs(DISK_RETRY, ++this.#refusals, env.random.next()), this.stopSignal);
    try {
      await this.#untilTheDiskAgrees(name, giveBack);
    } finally {
      this.#isResting = false;
      this.#tryAgain(name);
    }
  }

  async #beat(): Promise<void> {
    const actor = this.#actor;
    try {
      if ((await actor?.touch()) === 'fenced') await this.#reopen(actor);
    } catch (error) {
      this.#complain('the heartbeat could not be written', error);
    }
    await this.#tryBlocked();
  }

  async #tryBlocked(): Promise<void> {
    for (const [name, commit] of [...this.#blocked]) {
      this.#blocked.delete(name);
      await commit().catch((error: unknown) => {
        this.#blocked.set(name, commit);
        this.#complain('the end of a job could not be written; it is tried again', error, name);
      });
    }
  }

  /** A2. Several jobs may find out about the same `actor`, also when the agent goes on already. */
  async #reopen(actor: Actor | undefined): Promise<void> {
    if (actor !== this.#actor) return;
    this.#reopening ??= (async () => {
      for (const job of this.#running.values()) job.stop('lost');
      await this.#untilTheDiskAgrees('', () => this.#open());
      this.#logger.error('this agent was taken for dead, and goes on under another id', {
        actor: this.#actor?.id,
        from: actor?.id,
      });
      await actor?.close().catch(() => undefined);
    })().finally(() => {
      this.#reopening = undefined;
    });
    await this.#reopening;
  }

  async #lookForKills(): Promise<void> {
    for (const job of this.#running.values())
      await job
        .lookForKill()
        .catch((error: unknown) => this.#complain('a kill could not be looked for', error));
  }

  #complain(message: string, error: unknown, name?: string): void {
    const code = diskErrorCode(error);
    const reason = textOf(error);
    this.#logger.error(message, { actor: this.#actor?.id, job_id: name, error_code: code, reason });
  }
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
