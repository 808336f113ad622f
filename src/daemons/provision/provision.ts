/**
 * The provisioner: keeps as many processes of a command running as the worker pools with the provisioner `external` wish
 * (docs/worker-pools.md). The rows decide; it only carries them out, and says how many processes run.
 *
 * Two loops run beside each other, so that a brain that does not answer delays no process: one looks after the
 * processes, the other one talks with the brain.
 */

import { PRELOADS } from '../../backends/stream/names.ts';
import { type ApiAddress, ConsumerApi, ConsumerError, isFinal } from '../../consumer/api.ts';
import { News } from '../../consumer/news.ts';
import { Pauses } from '../../consumer/pauses.ts';
import { redisLibrary, StreamListener } from '../../consumer/stream.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { describeThrown } from '../../kit/redact.ts';
import { Service } from '../../kit/service.ts';
import { BrainPools, wishOf } from './brain-pools.ts';
import { type CommandSettings, commandFor } from './command-environment.ts';
import { ProvisionFolder } from './provision-folder.ts';
import { Slots } from './slots.ts';

/** How often processes are looked at; the end of one that this provisioner has started is heard at once. */
const LOOK_MS = 500;
const LOOKS_PER_TRIM = 10;
/** Entries of the stream that are heard at once. */
const HEARD_AT_ONCE = 100;
const REDIS_AWAY_MS = 1000;
const TELL_AT_END_MS = 5000;

export interface ProvisionOptions {
  readonly env: Env;
  readonly logger: Logger;
  readonly address: ApiAddress;
  readonly folder: string;
  /** Undefined: all worker pools with the provisioner `external`. */
  readonly pools: readonly string[] | undefined;
  readonly command: CommandSettings;
  readonly max: number;
  readonly graceMs: number | undefined;
  /** How often the brain is asked. */
  readonly intervalMs: number;
  readonly redisUrl: string | undefined;
  /** Whether a stop ends the processes; otherwise they go on, for the next provisioner with this folder. */
  readonly endsWorkers: boolean;
}

export class Provision extends Service {
  readonly #options: ProvisionOptions;
  readonly #api: ConsumerApi;
  readonly #brain: BrainPools;
  /** For the loop of the processes, and for that of the brain. */
  readonly #wishes = new News();
  readonly #counts = new News();
  #folder: ProvisionFolder | undefined;
  #slots: Slots | undefined;
  #loops: readonly Promise<void>[] = [];
  #looks = 0;
  /** What was complained of, until it is well again. */
  readonly #complaints = new Set<string>();

  constructor(options: ProvisionOptions) {
    super();
    this.#options = options;
    const { address, env, pools } = options;
    this.#api = new ConsumerApi(address, env.timers);
    this.#brain = new BrainPools({
      api: this.#api,
      pools,
      monotonic: () => env.clock.monotonic(),
      countOf: (pool) => this.#slots?.countOf(pool) ?? 0,
    });
  }

  /** The number of processes that run. */
  get count(): number {
    return this.#slots?.count ?? 0;
  }

  /** Throws where the folder is taken, and where the brain refuses the token. A brain that is away is waited for. */
  protected async onStart(): Promise<void> {
    const { env, logger, folder: path, max, graceMs, command, address } = this.#options;
    const folder = await ProvisionFolder.open(env, path);
    this.#folder = folder;
    const { layout, registry } = folder;
    const onExit = (): void => this.#wishes.tell();
    const context = { env, layout, registry, logger, graceMs, onExit };
    const slots = new Slots({
      context,
      max,
      commandFor: commandFor({ ...command, address, layout, registry, graceMs }),
    });
    this.#slots = slots;
    const lost = (name: string): void =>
      logger.error('the record of a process cannot be read; the process was ended', { worker_id: name });
    await slots.adopt(await folder.records(env, lost));
    if (slots.count > 0)
      logger.info('processes of an earlier provisioner were taken over', { count: slots.count });
    await this.#ask().catch((error: unknown) => {
      if (isFinal(error) || (error instanceof ConsumerError && error.isAboutToken)) throw error;
      this.#complain('brain', 'the brain could not be asked', error);
    });
    this.stopSignal.addEventListener('abort', () => {
      this.#wishes.tell();
      this.#counts.tell();
    });
    this.#loops = [this.#keep(slots), this.#talk(), this.#listen()];
  }

  protected async onStop(): Promise<void> {
    await Promise.all(this.#loops);
    if (this.#options.endsWorkers && this.#slots) await this.#endAll(this.#slots);
    this.#api.close();
    await this.#folder?.close();
  }

  async #keep(slots: Slots): Promise<void> {
    const { timers } = this.#options.env;
    while (!this.stopSignal.aborted) {
      const { next } = this.#wishes;
      const before = slots.count;
      try {
        await this.#round(slots);
        this.#isWell('processes');
      } catch (error) {
        this.#complain('processes', 'the processes could not be brought to their number', error);
      }
      if (slots.count !== before) this.#counts.tell();
      await Promise.race([next, pause(timers, LOOK_MS, this.stopSignal)]);
    }
  }

  async #round(slots: Slots): Promise<void> {
    await slots.look();
    if (this.#looks++ % LOOKS_PER_TRIM === 0) slots.trimLogs();
    if (!this.#brain.isKnown) return;
    const { rows } = this.#brain;
    const gone = slots.pools.filter((pool) => !this.#brain.row(pool));
    for (const pool of gone) await slots.apply(pool, undefined, wishOf(undefined));
    for (const row of rows) {
      const wish = wishOf(row);
      this.#checkMax(row.pool_id, wish.is === 'keep' ? wish.count : 0);
      await slots.apply(row.pool_id, row, wish);
    }
  }

  #checkMax(pool: string, wished: number): void {
    const { max, logger } = this.#options;
    if (wished <= max) return this.#isWell(`max ${pool}`);
    if (this.#complaints.has(`max ${pool}`)) return;
    this.#complaints.add(`max ${pool}`);
    logger.warn('a worker pool wishes more processes than --max allows', { pool_id: pool, count: wished });
  }

  async #talk(): Promise<void> {
    const { env, intervalMs } = this.#options;
    const pauses = new Pauses(env.random);
    while (!this.stopSignal.aborted) {
      const { next } = this.#counts;
      try {
        await this.#ask();
        await this.#brain.tell();
        pauses.reset();
        this.#isWell('brain');
        await Promise.race([next, pause(env.timers, intervalMs, this.stopSignal)]);
      } catch (error) {
        this.#complain('brain', 'the brain could not be asked', error);
        await pause(env.timers, pauses.next(), this.stopSignal);
      }
    }
  }

  async #ask(): Promise<void> {
    for (const pool of await this.#brain.ask()) this.#noSuchPool(pool);
    this.#wishes.tell();
  }

  #noSuchPool(pool: string): void {
    if (this.#complaints.has(`pool ${pool}`)) return;
    this.#complaints.add(`pool ${pool}`);
    this.#options.logger.warn('there is no worker pool of this name with the provisioner "external"', {
      pool_id: pool,
    });
  }

  /** Hears of changes over Redis. What is heard is a hint: the brain is asked then. */
  async #listen(): Promise<void> {
    const { env, redisUrl: url, logger } = this.#options;
    if (url === undefined) return;
    const library = await redisLibrary();
    if (!library)
      return logger.warn('the package "redis" is missing: the brain alone is asked for worker pools');
    const onProblem = (message: string): void => logger.warn('Redis is away', { reason: message });
    const stream = new StreamListener({ env, library, url, stop: this.stopSignal, onProblem });
    const name = `provision-${this.#folder?.registry}`;
    while (!this.stopSignal.aborted) {
      const heard = await stream.hear(HEARD_AT_ONCE, { name, stream: PRELOADS });
      if (heard) this.#counts.tell();
      else await pause(env.timers, REDIS_AWAY_MS, this.stopSignal);
    }
  }

  async #endAll(slots: Slots): Promise<void> {
    await slots.finishAll();
    while (!slots.isEmpty) {
      await slots.look();
      if (!slots.isEmpty) await pause(this.#options.env.timers, LOOK_MS / 10);
    }
    await Promise.race([
      this.#brain.tell().catch(() => undefined),
      pause(this.#options.env.timers, TELL_AT_END_MS),
    ]);
  }

  #isWell(what: string): void {
    this.#complaints.delete(what);
  }

  /** Logged once, until it is well again. */
  #complain(what: string, message: string, error: unknown): void {
    if (this.#complaints.has(what) || this.stopSignal.aborted) return;
    this.#complaints.add(what);
    this.#options.logger.warn(message, { reason: describeThrown(error) });
  }
}
