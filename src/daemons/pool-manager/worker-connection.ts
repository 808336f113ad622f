/** The manager's connection to a ready worker: checks its health repeatedly, and passes on the order to drain. */

import { checker } from '../../kit/check.ts';
import type { Cancel } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import { type Commander, RunningCount, WorkerHealth } from '../../model/worker-wire.ts';
import { commanderHeaders } from '../../wire/epochs.ts';
import { parseJsonBody } from '../../wire/json-body.ts';
import type { Target } from '../../wire/outbound.ts';
import type { WorkerContext } from './worker-context.ts';

const MAX_ANSWER_BYTES = 64 * 1024;
const checkHealth = checker(WorkerHealth);
const checkRunning = checker(RunningCount);

export interface WorkerHealthListener {
  /** Called after each successful check with the number of running executions. */
  onActive(active: number): void;
  onLost(why: string): void;
}

export class WorkerConnection extends Service {
  readonly #context: WorkerContext;
  readonly #target: Target;
  readonly #secret: string;
  readonly #id: string;
  readonly #listener: WorkerHealthListener;
  #misses = 0;
  #isChecking = false;
  #stopPolling: Cancel | undefined;

  constructor(
    context: WorkerContext,
    uri: string,
    secret: string,
    id: string,
    listener: WorkerHealthListener,
  ) {
    super();
    this.#context = context;
    this.#target = context.outbound.to(uri);
    this.#secret = secret;
    this.#id = id;
    this.#listener = listener;
  }

  /** Settles after the first health check. */
  protected async onStart(): Promise<void> {
    const { env, times } = this.#context;
    this.#stopPolling = every(env.timers, times.healthIntervalMs, () => void this.#check());
    await this.#check();
  }

  protected async onStop(): Promise<void> {
    this.#stopPolling?.();
    this.#target.close();
  }

  /** Sends the order to drain. A worker without this route (404) drains because the brain sends it no new work. */
  async drain(by: Commander | undefined): Promise<void> {
    try {
      const { status } = await this.#target.request({
        method: 'POST',
        path: '/drain',
        headers: { ...this.#headers(), ...(by && commanderHeaders(by)), 'content-type': 'application/json' },
        body: '{}',
        timeoutMs: this.#context.times.healthTimeoutMs,
        maxBytes: MAX_ANSWER_BYTES,
      });
      if (status < 300 || status === 404) return;
      this.#context.logger.warn('a worker refused to drain', { worker_id: this.#id, count: status });
    } catch (error) {
      const code = error instanceof OrchdError ? error.code : 'INTERNAL';
      this.#context.logger.warn('the order to drain did not reach a worker', {
        worker_id: this.#id,
        error_code: code,
      });
    }
  }

  /**
   * How many executions run on the worker for other owners than this one. 0 for a worker without this route, and for one
   * that does not answer.
   */
  async runningForOthers(by: Commander): Promise<number> {
    try {
      const { status, body } = await this.#target.request({
        path: '/running',
        headers: { ...this.#headers(), ...commanderHeaders(by) },
        timeoutMs: this.#context.times.healthTimeoutMs,
        maxBytes: MAX_ANSWER_BYTES,
      });
      return status === 200 ? checkRunning(parseJsonBody(body)).others : 0;
    } catch {
      return 0;
    }
  }

  async #check(): Promise<void> {
    if (this.#isChecking || this.stopSignal.aborted) return;
    this.#isChecking = true;
    const why = await this.#health().catch((error: unknown) =>
      error instanceof OrchdError ? error.message : 'it answered with something else',
    );
    this.#isChecking = false;
    if (this.stopSignal.aborted) return;
    if (why === undefined) {
      this.#misses = 0;
      return;
    }
    const { healthMisses } = this.#context.times;
    if (++this.#misses >= healthMisses)
      this.#listener.onLost(`it missed ${healthMisses} health checks: ${why}`);
  }

  /** Returns why the worker is not healthy; undefined where it is, or where its failure was reported. */
  async #health(): Promise<string | undefined> {
    const { status, body } = await this.#target.request({
      path: '/health',
      headers: this.#headers(),
      timeoutMs: this.#context.times.healthTimeoutMs,
      maxBytes: MAX_ANSWER_BYTES,
      signal: this.stopSignal,
    });
    const health = checkHealth(parseJsonBody(body));
    // Another process may have taken over the port.
    if (health.worker_id !== this.#id) return 'another worker answers there';
    if (health.status === 'failed') {
      if (!this.stopSignal.aborted) this.#listener.onLost('it says that it has failed');
      return undefined;
    }
    if (status !== 200) return `it answered ${status}`;
    if (!this.stopSignal.aborted) this.#listener.onActive(health.active);
    return undefined;
  }

  #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#secret}` };
  }
}
