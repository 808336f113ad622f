/** Tells the brains that this pool is here, and again and again that it still is. What they answer harms nothing. */
import { backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { RegisterPool } from '../../model/pool-wire.ts';
import type { Outbound, Target } from '../../wire/outbound.ts';

const TIMEOUT_MS = 5000;
const MAX_ANSWER_BYTES = 64 * 1024;
const MOST_BETWEEN_MS = 30_000;

export interface RegistrationOptions {
  readonly env: Env;
  readonly outbound: Outbound;
  readonly logger: Logger;
  readonly brains: readonly string[];
  readonly token: string | undefined;
  readonly everyMs: number;
  readonly body: () => RegisterPool;
}

export class Registration extends Service {
  readonly #options: RegistrationOptions;
  readonly #targets: readonly Target[];
  #told: Promise<unknown> = Promise.resolve();

  constructor(options: RegistrationOptions) {
    super();
    this.#options = options;
    this.#targets = options.brains.map((url) => options.outbound.to(url));
  }

  protected async onStart(): Promise<void> {
    this.#told = Promise.all(this.#targets.map((target) => this.#tellAgainAndAgain(target)));
  }

  protected async onStop(): Promise<void> {
    for (const target of this.#targets) target.close();
    await this.#told;
  }

  /** A brain that cannot be reached is asked less and less often. */
  async #tellAgainAndAgain(target: Target): Promise<void> {
    const { logger, env, everyMs } = this.#options;
    const policy = { baseDelayMs: everyMs, maxDelayMs: Math.max(everyMs, MOST_BETWEEN_MS), jitter: 0.2 };
    for (let failures = 0; !this.stopSignal.aborted; ) {
      const why = await this.#register(target);
      if (this.stopSignal.aborted) return;
      if (why === undefined && failures > 0) logger.info('the brain knows this pool again');
      // Said once: it may be away for hours.
      if (why !== undefined && failures === 0)
        logger.warn('the brain was not told of this pool', { reason: why });
      failures = why === undefined ? 0 : failures + 1;
      const ms = why === undefined ? everyMs : backoffMs(policy, failures, env.random.next());
      await pause(env.timers, ms, this.stopSignal);
    }
  }

  /** Why it does not know; undefined where it does. */
  async #register(target: Target): Promise<string | undefined> {
    const { token, body } = this.#options;
    try {
      const { status } = await target.request({
        method: 'POST',
        path: '/v2/pools/register',
        headers: {
          'content-type': 'application/json',
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
        },
        body: JSON.stringify(body()),
        timeoutMs: TIMEOUT_MS,
        maxBytes: MAX_ANSWER_BYTES,
      });
      return status < 300 ? undefined : `it answered ${status}`;
    } catch (error) {
      return error instanceof OrchdError ? error.message : 'it could not be asked';
    }
  }
}
