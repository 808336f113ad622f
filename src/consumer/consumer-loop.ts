/**
 * A consumer of the brain's work (docs/consumers.md): registers, claims, has the jobs run, and reports.
 *
 * K1  A job is begun only after the answer to its claim, and a claim whose answer was lost is repeated with its number.
 * K2  A token is held, and named in every heartbeat, until the brain has acknowledged its result, or says that it is lost.
 * K3  When the brain does not know the consumer any more, whatever it runs is stopped and reported to nobody.
 */
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { Service } from '../kit/service.ts';
import { within } from '../kit/within.ts';
import type { ConsumerBody, ConsumerRegistered } from '../model/http/consumers.ts';
import { type ApiAddress, ConsumerApi, ConsumerError, isFinal } from './api.ts';
import { type Answer, Claims, type Wanted } from './claims.ts';
import { Heartbeats } from './heartbeats.ts';
import type { Ended, HeldJob } from './held-job.ts';
import { News } from './news.ts';
import { Pauses } from './pauses.ts';
import { Reports } from './reports.ts';
import type { Claimed, Resumed, Runner } from './runner.ts';
import { redisLibrary, StreamListener } from './stream.ts';
import { Work } from './work.ts';

const ID_BYTES = 16;
/** How long ended jobs, and the farewell, may take at a stop. */
const LEAVE_MS = 5000;
/** A job that takes less is quick. While quick jobs come, a consumer asks the brain for more, and waits so long for each. */
const FLOW_MS = 200;

export interface ConsumerLoopOptions {
  readonly env: Pick<Env, 'timers' | 'random' | 'clock'>;
  readonly address: ApiAddress;
  readonly declared: Omit<ConsumerBody, 'consumer_id'>;
  readonly runner: Runner;
  readonly waitMs: number;
  /** Where it hears of jobs, if the brain uses Redis and the package `redis` is there. */
  readonly redisUrl?: string | undefined;
  readonly graceMs: number;
  readonly onProblem: (message: string) => void;
  /** The id to register under; by default a new one for each registration. */
  readonly consumerId?: (() => Promise<string>) | undefined;
  readonly resumed?: Resumed | undefined;
}

export class ConsumerLoop extends Service {
  readonly #options: ConsumerLoopOptions;
  readonly #api: ConsumerApi;
  readonly #work = new Work(new News());
  readonly #heartbeats: Heartbeats;
  readonly #claims: Claims;
  readonly #over = Promise.withResolvers<void>();
  readonly #noReports = new AbortController();
  #claiming: Promise<void> = Promise.resolve();
  #reporting: Promise<void> = Promise.resolve();
  #isTelling = false;
  /** When a claim last brought jobs. */
  #givenAt = Number.NEGATIVE_INFINITY;
  /** The duration of the job that ended last. */
  #tookMs = Number.POSITIVE_INFINITY;

  constructor(options: ConsumerLoopOptions) {
    super();
    this.#options = options;
    const { env, address, runner, resumed, onProblem } = options;
    this.#api = new ConsumerApi(address, env.timers);
    this.#heartbeats = new Heartbeats(address, {
      onAnswer: (answer) => {
        this.#work.hear(answer);
        if (answer.drain) void this.stop();
      },
      onGone: (consumerId) => {
        if (this.#work.registration?.consumer_id === consumerId) this.#forget();
      },
      onProblem,
    });
    const parts = {
      env,
      api: this.#api,
      work: this.#work,
      path: (rest: string) => this.#path(rest),
      onProblem,
    };
    this.#claims = new Claims({ ...parts, runner, onGone: () => this.#forget() }, resumed?.claim ?? 0);
    this.#reports = new Reports({
      ...parts,
      onGone: () => this.#forget(),
      onSettled: (token) => {
        runner.settled?.(token);
        this.#tellSoon();
      },
    });
  }

  readonly #reports: Reports;
  #stream: StreamListener | undefined;

  /** Resolves when the consumer has left: after a stop, or when an operator has let it finish. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  protected async onStart(): Promise<void> {
    const { resumed } = this.#options;
    await this.#listen();
    await this.#register(true);
    for (const job of resumed?.jobs ?? []) {
      const held = this.#work.hold(job.token);
      this.#run(held, job.run(held));
    }
    this.#tell();
    this.#reporting = this.#reports.run(this.#noReports.signal);
    this.#claiming = this.#claimAll();
  }

  protected async onStop(): Promise<void> {
    const { timers } = this.#options.env;
    this.#claims.cut();
    this.#work.news.tell();
    await this.#claiming;
    const idle = (): Promise<void> => this.#work.news.until(() => this.#work.isIdle);
    await within(timers, this.#options.graceMs, idle(), undefined);
    for (const job of this.#work.held.values()) job.stop('shutdown');
    await within(timers, LEAVE_MS, idle(), undefined);
    this.#noReports.abort();
    await this.#heartbeats.stop();
    await within(timers, LEAVE_MS, Promise.all([this.#reporting, this.#leave()]), undefined);
    this.#api.close();
    this.#over.resolve();
  }

  /** The heartbeat gives back what a claim has taken whose answer never came. */
  async #leave(): Promise<void> {
    const { registration, held, claimed } = this.#work;
    if (!registration) return;
    try {
      await this.#api.call('POST', this.#path('/heartbeat'), { body: { held: [...held.keys()], claimed } });
      await this.#api.call('DELETE', this.#path(''));
    } catch (error) {
      this.#complain('the consumer could not say that it leaves', error);
    }
  }

  #path(rest: string): string {
    return `/v2/consumers/${this.#work.registration?.consumer_id}${rest}`;
  }

  /** The id is chosen here: a registration whose answer was lost is repeated, and is the same one. */
  async #register(isFirst = false): Promise<void> {
    const { env, declared, consumerId: chosen } = this.#options;
    const pauses = new Pauses(env.random);
    const consumerId = chosen ? await chosen() : env.random.hex(ID_BYTES);
    while (!this.stopSignal.aborted) {
      try {
        const listens = this.#stream ? ({ listens: 'redis' } as const) : {};
        const body = { ...declared, ...listens, consumer_id: consumerId };
        this.#work.registration = await this.#api.call<ConsumerRegistered>('POST', '/v2/consumers', { body });
        return;
      } catch (error) {
        const isRefused = isFinal(error) || (error instanceof ConsumerError && error.isAboutToken);
        if (isFirst && isRefused) throw error;
        this.#complain('the registration failed', error);
      }
      await pause(env.timers, pauses.next(), this.stopSignal);
    }
  }

  async #listen(): Promise<void> {
    const { env, redisUrl: url, onProblem } = this.#options;
    if (url === undefined) return;
    const library = await redisLibrary();
    if (library) this.#stream = new StreamListener({ env, library, url, stop: this.stopSignal, onProblem });
    else onProblem('the package "redis" is missing: jobs are asked for by long poll');
  }

  async #claimAll(): Promise<void> {
    const { env, declared } = this.#options;
    const work = this.#work;
    const stop = this.stopSignal;
    while (!stop.aborted) {
      await work.news.until(() => work.free(declared.slots) > 0 || !work.registration || stop.aborted);
      if (stop.aborted) return;
      if (!work.registration) {
        await this.#register();
        this.#tell();
        continue;
      }
      const answer = await this.#claim();
      if (!answer) continue;
      await this.#begin(answer.jobs);
      if (!answer.drain) continue;
      // The brain gives out nothing now. Only if it drains this consumer, which a heartbeat says, is that the end.
      this.#heartbeats.now();
      await pause(env.timers, work.registration?.heartbeat_ms ?? 0, stop);
    }
  }

  async #claim(): Promise<Answer | undefined> {
    const { declared, env } = this.#options;
    const work = this.#work;
    const stop = this.stopSignal;
    await this.#awaitReports();
    const wanted = await this.#wanted();
    if (stop.aborted || !work.registration) return undefined;
    const answer = await this.#claims.take(work.free(declared.slots), stop, wanted);
    if (answer && answer.jobs.length > 0) this.#givenAt = env.clock.monotonic();
    return answer;
  }

  /**
   * While quick jobs keep coming, the brain is asked for them, also where there is a Redis: it answers in the commit that
   * records an attempt, and no entry is written, read, claimed and deleted. With long jobs a consumer listens, so that of
   * those that listen each is woken in turn.
   */
  async #wanted(): Promise<Wanted> {
    const { declared, waitMs } = this.#options;
    const work = this.#work;
    if (!this.#stream || !work.registration) return { waitMs };
    if (this.#isFlowing()) return { waitMs: FLOW_MS };
    const tokens = await this.#stream.hear(work.free(declared.slots), work.registration);
    return tokens ? { waitMs: 0, tokens } : { waitMs };
  }

  /** Results on their way free the slots of their jobs: one claim for all of them. A brain may take long to answer them. */
  async #awaitReports(): Promise<void> {
    const { isIdle, running, news } = this.#work;
    if (isIdle || running.size > 0) return;
    const isOver = (): boolean => this.#work.isIdle || running.size > 0 || this.stopSignal.aborted;
    await within(this.#options.env.timers, FLOW_MS, news.until(isOver), undefined);
  }

  /** Jobs keep coming, and none of them takes long. */
  #isFlowing(): boolean {
    const now = this.#options.env.clock.monotonic();
    const [oldest = now] = this.#work.running.values();
    return [now - this.#givenAt, now - oldest, this.#tookMs].every((ms) => ms < FLOW_MS);
  }

  /** Begins the jobs of a claim, after the heartbeats know of them: a handler may block the loop. */
  async #begin(claimed: readonly Claimed[]): Promise<void> {
    const { runner } = this.#options;
    const work = this.#work;
    const jobs = claimed.filter(({ token }) => !work.held.has(token));
    const all = jobs.map((job) => ({ job, held: work.hold(job.token) }));
    this.#tell();
    if (this.stopSignal.aborted) {
      for (const { held } of all) this.#end(held, { returned: true });
      return;
    }
    await runner.claimed?.(jobs.map(({ token }) => token));
    await Promise.all(
      all.map(async ({ job, held }) => {
        try {
          const { ended } = await runner.begin(job, held);
          this.#run(held, ended);
        } catch (error) {
          this.#run(held, Promise.reject(error));
        }
      }),
    );
  }

  #run(held: HeldJob, ended: Promise<Ended>): void {
    const { clock } = this.#options.env;
    const since = clock.monotonic();
    this.#work.running.set(held.token, since);
    void ended
      .catch((error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        return { ok: false, error: { message, retriable: true } } as const;
      })
      .then((result) => {
        this.#work.running.delete(held.token);
        this.#tookMs = clock.monotonic() - since;
        this.#end(held, result);
      });
  }

  #end(held: HeldJob, result: Ended): void {
    if (!held.isLost) held.result = { token: held.token, ...result };
    else this.#options.runner.settled?.(held.token);
    this.#work.news.tell();
  }

  #forget(): void {
    this.#work.forget();
    this.#claims.cut();
  }

  /** What is not held any more may be named a little longer: the brain then says that it is lost, and nobody minds. */
  #tellSoon(): void {
    if (this.#isTelling) return;
    this.#isTelling = true;
    this.#options.env.timers.soon(() => {
      this.#isTelling = false;
      this.#tell();
    });
  }

  #tell(): void {
    const { registration, held, claimed } = this.#work;
    if (!registration || this.#noReports.signal.aborted) return;
    const { consumer_id: consumerId, heartbeat_ms: heartbeatMs, lease_ttl_ms: leaseTtlMs } = registration;
    this.#heartbeats.tell({ consumerId, heartbeatMs, leaseTtlMs, held: [...held.keys()], claimed });
  }

  #complain(what: string, error: unknown): void {
    this.#options.onProblem(`${what}: ${error instanceof Error ? error.message : error}`);
  }
}
