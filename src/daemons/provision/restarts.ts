/** When a process that has ended by itself is started again: after pauses that grow while it keeps ending. */
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';

const POLICY: BackoffPolicy = { baseDelayMs: 200, maxDelayMs: 30_000, jitter: 0.3 };
/** A process that has run for so long was no failed start: the next pause is a short one again. */
const STABLE_MS = 10_000;

export class Restarts {
  readonly #env: Pick<Env, 'clock' | 'random'>;
  #startedAt = 0;
  #dueAt = Number.NEGATIVE_INFINITY;
  /** Ends in a row, each soon after its start. */
  failures = 0;

  constructor(env: Pick<Env, 'clock' | 'random'>) {
    this.#env = env;
  }

  get isDue(): boolean {
    return this.#env.clock.monotonic() >= this.#dueAt;
  }

  started(): void {
    this.#startedAt = this.#env.clock.monotonic();
  }

  failed(): void {
    const now = this.#env.clock.monotonic();
    this.failures = now - this.#startedAt >= STABLE_MS ? 1 : this.failures + 1;
    this.#dueAt = now + backoffMs(POLICY, this.failures, this.#env.random.next());
  }
}
