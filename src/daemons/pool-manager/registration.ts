/** Registers this pool with the brains, and repeats it as a sign of life. A failed registration is logged and retried. */
import { backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { RegisterPool } from '../../model/pool-wire.ts';
import type { Outbound, Target } from '../../wire/outbound.ts';
import { readError } from '../../wire/read-error.ts';

const REQUEST_TIMEOUT_MS = 5000;
const MAX_ANSWER_BYTES = 64 * 1024;
/** A brain that restarts is away for about a second. */
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 1000;

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
  #registering: Promise<unknown> = Promise.resolve();
  #hurry = new AbortController();

  constructor(options: RegistrationOptions) {
    super();
    this.#options = options;
    this.#targets = options.brains.map((url) => options.outbound.to(url));
  }

  protected async onStart(): Promise<void> {
    this.#registering = Promise.all(this.#targets.map((target) => this.#registerRepeatedly(target)));
  }

  /** Registers again at once: a brain that has ended forgets this pool, and may be back soon. */
  hurry(): void {
    this.#hurry.abort();
    this.#hurry = new AbortController();
  }

  protected async onStop(): Promise<void> {
    for (const target of this.#targets) target.close();
    await this.#registering;
  }

  /** Retries a brain that cannot be reached with growing delays. */
  async #registerRepeatedly(target: Target): Promise<void> {
    const { logger, env, everyMs } = this.#options;
    const policy = { baseDelayMs: FIRST_RETRY_MS, maxDelayMs: MAX_RETRY_MS, jitter: 0.2 };
    for (let failures = 0; !this.stopSignal.aborted; ) {
      const hurry = this.#hurry.signal;
      const why = await this.#register(target);
      if (this.stopSignal.aborted) return;
      if (why === undefined && failures > 0) logger.info('registered with the brain again');
      // Logged once: a brain may be away for hours.
      if (why !== undefined && failures === 0) logger.warn('cannot register with the brain', { reason: why });
      failures = why === undefined ? 0 : failures + 1;
      const ms = why === undefined ? everyMs : backoffMs(policy, failures, env.random.next());
      await pause(env.timers, ms, AbortSignal.any([this.stopSignal, hurry]));
    }
  }

  /** Returns why the registration failed; undefined where it did not. */
  async #register(target: Target): Promise<string | undefined> {
    const { token, body } = this.#options;
    try {
      const { status, body: answer } = await target.request({
        method: 'POST',
        path: '/v2/pools/register',
        headers: {
          'content-type': 'application/json',
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
        },
        body: JSON.stringify(body()),
        timeoutMs: REQUEST_TIMEOUT_MS,
        maxBytes: MAX_ANSWER_BYTES,
      });
      if (status < 300) return undefined;
      const message = readError(answer.toString())?.message;
      return message === undefined ? `it answered ${status}` : `it answered ${status}: ${message}`;
    } catch (error) {
      return error instanceof OrchdError ? error.message : 'it could not be asked';
    }
  }
}
