/** Tells the brains that this pool is here, and again and again that it still is. What they answer harms nothing. */
import { backoffMs } from '../../kit/backoff.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
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

export class Registration {
  readonly #options: RegistrationOptions;
  readonly #lines: BrainLine[] = [];

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  start(): void {
    for (const url of this.#options.brains) {
      const line = new BrainLine(this.#options, this.#options.outbound.to(url));
      this.#lines.push(line);
      line.start();
    }
  }

  stop(): void {
    for (const line of this.#lines) line.stop();
  }
}

/** One brain; one that cannot be reached is asked less and less often. */
class BrainLine {
  readonly #options: RegistrationOptions;
  readonly #target: Target;
  #failures = 0;
  #stopped = false;
  #cancel: Cancel = () => undefined;

  constructor(options: RegistrationOptions, target: Target) {
    this.#options = options;
    this.#target = target;
  }

  start(): void {
    void this.#tell();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
    this.#target.close();
  }

  async #tell(): Promise<void> {
    const { logger, env, everyMs } = this.#options;
    const why = await this.#register();
    if (this.#stopped) return;
    if (why === undefined && this.#failures > 0) logger.info('the brain knows this pool again');
    // Said once: it may be away for hours.
    if (why !== undefined && this.#failures === 0)
      logger.warn('the brain was not told of this pool', { reason: why });
    this.#failures = why === undefined ? 0 : this.#failures + 1;
    const policy = { baseDelayMs: everyMs, maxDelayMs: Math.max(everyMs, MOST_BETWEEN_MS), jitter: 0.2 };
    const ms = why === undefined ? everyMs : backoffMs(policy, this.#failures, env.random.next());
    this.#cancel = env.timers.after(ms, () => void this.#tell());
  }

  /** Why it does not know; undefined where it does. */
  async #register(): Promise<string | undefined> {
    const { token, body } = this.#options;
    try {
      const { status } = await this.#target.request({
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
