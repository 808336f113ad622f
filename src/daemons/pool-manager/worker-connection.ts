/** The way to a worker that is ready: asks again and again how it is, and tells it to take nothing new. */

import { checker } from '../../kit/check.ts';
import type { Cancel } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import { type Commander, WorkerHealth } from '../../model/worker-wire.ts';
import { commanderHeaders } from '../../wire/epochs.ts';
import { parseJsonBody } from '../../wire/json-body.ts';
import type { Target } from '../../wire/outbound.ts';
import type { WorkerParts } from './worker-parts.ts';

const MAX_ANSWER_BYTES = 64 * 1024;
const checkHealth = checker(WorkerHealth);

export interface WorkerNews {
  /** How many executions it has in hand. */
  onActive(active: number): void;
  onLost(why: string): void;
}

export class WorkerConnection extends Service {
  readonly #parts: WorkerParts;
  readonly #target: Target;
  readonly #secret: string;
  readonly #id: string;
  readonly #news: WorkerNews;
  #misses = 0;
  #isAsking = false;
  #stopPolling: Cancel | undefined;

  constructor(parts: WorkerParts, uri: string, secret: string, id: string, news: WorkerNews) {
    super();
    this.#parts = parts;
    this.#target = parts.outbound.to(uri);
    this.#secret = secret;
    this.#id = id;
    this.#news = news;
  }

  /** Settles when it was asked for the first time. */
  protected async onStart(): Promise<void> {
    const { env, times } = this.#parts;
    this.#stopPolling = every(env.timers, times.healthIntervalMs, () => void this.#ask());
    await this.#ask();
  }

  protected async onStop(): Promise<void> {
    this.#stopPolling?.();
    this.#target.close();
  }

  /** A worker that does not know this request drains by getting nothing new. */
  async drain(by: Commander | undefined): Promise<void> {
    try {
      const { status } = await this.#target.request({
        method: 'POST',
        path: '/drain',
        headers: { ...this.#headers(), ...(by && commanderHeaders(by)), 'content-type': 'application/json' },
        body: '{}',
        timeoutMs: this.#parts.times.healthTimeoutMs,
        maxBytes: MAX_ANSWER_BYTES,
      });
      if (status < 300 || status === 404) return;
      this.#parts.logger.warn('a worker refused to drain', { worker_id: this.#id, count: status });
    } catch (error) {
      const code = error instanceof OrchdError ? error.code : 'INTERNAL';
      this.#parts.logger.warn('a worker could not be told to drain', {
        worker_id: this.#id,
        error_code: code,
      });
    }
  }

  async #ask(): Promise<void> {
    if (this.#isAsking || this.stopSignal.aborted) return;
    this.#isAsking = true;
    const why = await this.#health().catch((error: unknown) =>
      error instanceof OrchdError ? error.message : 'it answered with something else',
    );
    this.#isAsking = false;
    if (this.stopSignal.aborted) return;
    if (why === undefined) {
      this.#misses = 0;
      return;
    }
    const { healthMisses } = this.#parts.times;
    if (++this.#misses >= healthMisses) this.#news.onLost(`it missed ${healthMisses} health checks: ${why}`);
  }

  /** Why it does not count as well; undefined where it is. */
  async #health(): Promise<string | undefined> {
    const { status, body } = await this.#target.request({
      path: '/health',
      headers: this.#headers(),
      timeoutMs: this.#parts.times.healthTimeoutMs,
      maxBytes: MAX_ANSWER_BYTES,
      signal: this.stopSignal,
    });
    const health = checkHealth(parseJsonBody(body));
    // Another process may have got its port.
    if (health.worker_id !== this.#id) return 'another worker answers there';
    if (health.status === 'failed') {
      if (!this.stopSignal.aborted) this.#news.onLost('it says that it has failed');
      return undefined;
    }
    if (status !== 200) return `it answered ${status}`;
    if (!this.stopSignal.aborted) this.#news.onActive(health.active);
    return undefined;
  }

  #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#secret}` };
  }
}
