/**
 * A spool as the brain sees it: one backend, with the slots of all agents that are at work in it. Agents come and go, and
 * each change becomes a new declaration of the backend. While there is no agent, or no spool, the backend takes no jobs.
 */
import { resolve } from 'node:path';
import type { BackendInfo, BackendListener, BackendSource } from '../../core/ports/backend.ts';
import type { Env } from '../../kit/env/env.ts';
import { FolderWatch } from '../../kit/folder-watch.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { realHost } from '../../kit/process/host.ts';
import { SharedCall } from '../../kit/shared-call.ts';
import { toOrchdError } from '../../model/errors.ts';
import type { Labels } from '../../model/records.ts';
import { Heartbeats } from '../../spool/owner.ts';
import { type Presence, presentAgents } from '../../spool/presence.ts';
import { openSpool, spoolId } from '../../spool/spool.ts';
import { SpoolExecutions } from './executions.ts';
import { SpoolBackend } from './spool-backend.ts';

/** How often the agents are looked at besides notifications: the death of a process is told by nobody. */
const LOOK_MS = 1000;
/** How often folders that are no longer needed are looked for. */
const SWEEP_MS = 60_000;

/** The values of options that are left out. */
export const SPOOL_BACKEND_DEFAULTS = {
  paid: false,
  labels: {},
  keepAckedMs: 10 * 60_000,
} as const;

export interface SpoolSourceOptions {
  readonly env: Env;
  readonly logger: Logger;
  /** The name of the backend. */
  readonly name: string;
  /** The folder of the spool. */
  readonly folder: string;
  /** The job types that its agents run; by default any. */
  readonly types?: readonly string[] | undefined;
  readonly models?: readonly string[] | undefined;
  readonly labels?: Labels | undefined;
  /** Whether a second execution would cost money. */
  readonly paid?: boolean | undefined;
  /** How long the folder of an acknowledged job stays, so that its events can be followed. */
  readonly keepAckedMs?: number | undefined;
}

export class SpoolSource implements BackendSource {
  readonly #options: SpoolSourceOptions;
  readonly #stop = new AbortController();
  readonly #firstReport = Promise.withResolvers<void>();
  #listener: BackendListener | undefined;
  #working: Promise<void> | undefined;
  #executions: SpoolExecutions | undefined;
  #presented: Pick<BackendInfo, 'slots' | 'registry' | 'outage'> | undefined;
  #sweepAt = 0;
  readonly #opening = new SharedCall(() => this.#open());

  constructor(options: SpoolSourceOptions) {
    this.#options = options;
  }

  /** Names of models that callers may use without any set-up. */
  get models(): readonly string[] {
    return this.#options.models ?? [];
  }

  /** Settles when the spool was looked at once. */
  firstReports(): Promise<void> {
    return this.#firstReport.promise;
  }

  start(listener: BackendListener): void {
    this.#listener = listener;
    // At once: the attempts of an earlier brain are not lost because the spool was not looked at yet.
    this.#present({ slots: 1, registry: '', outage: 'it has not been looked at yet' });
    this.#working = this.#work();
  }

  /** Jobs in the spool go on. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#firstReport.resolve();
    await this.#working;
    await this.#executions?.close().catch((error: unknown) => this.#complain(error));
  }

  forget(): void {}

  async #work(): Promise<void> {
    const { env } = this.#options;
    const heartbeats = new Heartbeats(() => env.clock.monotonic());
    let watch: FolderWatch | undefined;
    while (!this.#stop.signal.aborted) {
      try {
        const executions = await this.#opening.ask();
        watch ??= new FolderWatch(env.timers, executions.spool.paths.tmp);
        this.#declare(executions, await presentAgents(executions.spool, heartbeats));
        await this.#sweep(executions);
      } catch (error) {
        const registry = this.#presented?.registry ?? '';
        this.#present({ slots: 1, registry, outage: toOrchdError(error).message });
      }
      this.#firstReport.resolve();
      await this.#untilNextLook(watch);
    }
    watch?.close();
  }

  /** Until something has changed in `tmp/`, and for LOOK_MS at most. */
  async #untilNextLook(watch: FolderWatch | undefined): Promise<void> {
    const { env } = this.#options;
    const until = env.clock.monotonic() + LOOK_MS;
    if (!watch) return pause(env.timers, LOOK_MS, this.#stop.signal);
    while (env.clock.monotonic() < until && !this.#stop.signal.aborted)
      if ((await watch.wait(this.#stop.signal)) === 'changed') return;
  }

  /** The folder is looked at each time: what replaces a removed spool is another one, and has another id. */
  async #open(): Promise<SpoolExecutions> {
    const { env, logger, keepAckedMs = SPOOL_BACKEND_DEFAULTS.keepAckedMs } = this.#options;
    const host = realHost(() => env.clock.now());
    const spool = await openSpool({ env, host, logger, folder: resolve(this.#options.folder) });
    const before = this.#executions;
    if (before?.registry === (await spoolId(spool))) return before;
    this.#executions = await SpoolExecutions.open({ env, spool, keepAckedMs });
    await before?.close().catch((error: unknown) => this.#complain(error));
    return this.#executions;
  }

  /** The spool as it was last looked at; one that could not be used then is looked at again. */
  async #usable(): Promise<SpoolExecutions> {
    return this.#executions ?? this.#opening.ask();
  }

  async #sweep({ ended }: SpoolExecutions): Promise<void> {
    const now = this.#options.env.clock.monotonic();
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + SWEEP_MS;
    await ended.sweep().catch((error: unknown) => this.#complain(error));
  }

  #declare({ registry }: SpoolExecutions, { agents, slots }: Presence): void {
    const outage = agents === 0 ? 'no agent is at work in the spool' : undefined;
    this.#present({ slots: Math.max(1, slots), registry, outage });
  }

  #present(declared: Pick<BackendInfo, 'slots' | 'registry' | 'outage'>): void {
    const { name, types, models, labels, paid, logger } = this.#options;
    const before = this.#presented;
    const isSame =
      before?.slots === declared.slots &&
      before.registry === declared.registry &&
      before.outage === declared.outage;
    if (isSame || this.#stop.signal.aborted) return;
    this.#presented = declared;
    const info: BackendInfo = {
      name,
      kind: 'spool',
      types,
      models,
      labels: labels ?? SPOOL_BACKEND_DEFAULTS.labels,
      paid: paid ?? SPOOL_BACKEND_DEFAULTS.paid,
      keepsResults: true,
      ...declared,
    };
    if (declared.outage !== undefined && before?.outage !== declared.outage)
      logger.warn('a spool takes no jobs', { backend: name, reason: declared.outage });
    this.#listener?.present(new SpoolBackend(info, () => this.#usable()));
  }

  #complain(error: unknown): void {
    const { logger, name } = this.#options;
    logger.warn('the folders of ended jobs could not be tidied up', {
      backend: name,
      reason: toOrchdError(error).message,
    });
  }
}
