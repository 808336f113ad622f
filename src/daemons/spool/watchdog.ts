/** The watchdog of a spool: repairs what dead processes have left, every so often. */
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { Actor } from '../../spool/actor.ts';
import { Heartbeats } from '../../spool/owner.ts';
import { type AbandonedRuns, sweepSpool } from '../../spool/repair.ts';
import type { Spool } from '../../spool/spool.ts';

export interface WatchdogOptions {
  readonly env: Env;
  readonly spool: Spool;
  readonly intervalMs: number;
  /** Knows the commands of dead agents. */
  readonly runs?: AbandonedRuns | undefined;
}

export class SpoolWatchdog extends Service {
  readonly #options: WatchdogOptions;
  readonly #heartbeats: Heartbeats;
  #actor: Actor | undefined;
  #sweeping: Promise<void> | undefined;

  constructor(options: WatchdogOptions) {
    super();
    this.#options = options;
    this.#heartbeats = new Heartbeats(() => options.env.clock.monotonic());
  }

  protected async onStart(): Promise<void> {
    this.#actor = await Actor.open(this.#options.spool, 'watchdog');
    this.#sweeping = this.#sweepAgain();
  }

  protected async onStop(): Promise<void> {
    await this.#sweeping;
    await this.#actor?.close();
  }

  async #sweepAgain(): Promise<void> {
    const { env, intervalMs } = this.#options;
    while (!this.stopSignal.aborted) {
      await this.#sweep().catch((error: unknown) => this.#complain(error));
      await pause(env.timers, intervalMs, this.stopSignal);
    }
  }

  async #sweep(): Promise<void> {
    const { spool, runs } = this.#options;
    // Another watchdog may have taken this one for dead.
    if ((await this.#actor?.touch()) === 'fenced') this.#actor = await Actor.open(spool, 'watchdog');
    await sweepSpool(this.#actor as Actor, this.#heartbeats, runs);
  }

  #complain(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#options.spool.logger.error('the spool could not be looked through', {
      actor: this.#actor?.id,
      error_code: diskErrorCode(error),
      reason,
    });
  }
}
