/**
 * One pool manager: asked all the time, with a question that waits for news, so that what is known of it is never
 * older than one such wait; ordered about in between.
 */
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { errorInfo, isErrorCode, OrchdError } from '../../model/errors.ts';
import { PoolState, type StartWorker } from '../../model/pool-wire.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { commanderHeaders } from '../../wire/epochs.ts';
import type { Reply, StreamReply, Target } from '../../wire/outbound.ts';

export interface PoolClientOptions {
  readonly env: Env;
  readonly url: string;
  readonly target: Target;
  readonly secret: string | undefined;
  /** A manager that has not answered for this long is lost until it does. */
  readonly maxAgeMs: number;
  readonly onState: (state: PoolState) => void;
  readonly onLost: (error: Error) => void;
}

const checkState = checker(PoolState);
const MAX_STATE_BYTES = 16 * 2 ** 20;
/** Between two tries of one that does not answer. */
const RETRY_MS = 250;
/** Between two questions, however fast the answers come: one that does not wait must not keep us busy. */
const PACE_MS = 10;

/** How it stands with the manager; `version` is the last one that was heard of its state. */
type Contact =
  | { readonly is: 'answering'; readonly heardAt: number; readonly version: number }
  /** It did not answer the last question, and was last heard, or first asked, at `since`. */
  | { readonly is: 'silent'; readonly since: number; readonly version: number | undefined }
  | { readonly is: 'lost'; readonly version: number | undefined };

export class PoolClient extends Service {
  readonly url: string;
  readonly #options: PoolClientOptions;
  #contact: Contact;
  #watching: Promise<void> = Promise.resolve();

  constructor(options: PoolClientOptions) {
    super();
    this.#options = options;
    this.url = options.url;
    this.#contact = { is: 'silent', since: options.env.clock.monotonic(), version: undefined };
  }

  /** Whether it answered when it was last asked. */
  get answers(): boolean {
    return this.#contact.is === 'answering';
  }

  protected async onStart(): Promise<void> {
    this.#watching = this.#watch();
  }

  protected async onStop(): Promise<void> {
    this.#options.target.close();
    await this.#watching;
  }

  startWorker(order: StartWorker, who: Commander): Promise<void> {
    return this.#order('/v2/workers/start', who, order);
  }

  stopWorker(worker: string, who: Commander): Promise<void> {
    return this.#order('/v2/workers/stop', who, { worker_id: worker });
  }

  drainWorker(worker: string, who: Commander): Promise<void> {
    return this.#order(`/v2/workers/${encodeURIComponent(worker)}/drain`, who, {});
  }

  /** A question about models. */
  async ask(path: string, body: unknown, timeoutMs: number): Promise<unknown> {
    const reply = await this.#post(path, this.#headers(), body, timeoutMs);
    return JSON.parse(reply.body.toString());
  }

  /** A question that is answered bit by bit. */
  async stream(path: string, body: unknown, idleMs: number): Promise<StreamReply> {
    const headers = { ...this.#headers(), 'content-type': 'application/json' };
    const reply = await this.#options.target.stream({
      method: 'POST',
      path,
      headers,
      body: JSON.stringify(body),
      idleMs,
    });
    if (reply.status === 200) return reply;
    reply.close();
    throw new OrchdError('POOL_UNAVAILABLE', `the pool manager answered ${reply.status}`);
  }

  async #watch(): Promise<void> {
    const { clock, timers } = this.#options.env;
    while (!this.stopSignal.aborted) {
      try {
        const state = await this.#state();
        if (this.stopSignal.aborted) return;
        this.#contact = { is: 'answering', heardAt: clock.monotonic(), version: state.version };
        this.#options.onState(state);
        await pause(timers, PACE_MS, this.stopSignal);
      } catch (error) {
        if (this.stopSignal.aborted) return;
        this.#unheard(error as Error);
        await pause(timers, RETRY_MS, this.stopSignal);
      }
    }
  }

  /** Half the age at which it would count as lost: a wait, and time for the answer. */
  async #state(): Promise<PoolState> {
    const { target, maxAgeMs } = this.#options;
    const { is, version } = this.#contact;
    const waitMs = is === 'lost' || version === undefined ? 0 : Math.floor(maxAgeMs / 2);
    const path = `/v2/state?after=${version ?? 0}&wait_ms=${waitMs}`;
    const reply = await target.request({
      path,
      headers: this.#headers(),
      timeoutMs: maxAgeMs,
      maxBytes: MAX_STATE_BYTES,
    });
    if (reply.status !== 200) throw refusalOf(reply);
    return checkState(JSON.parse(reply.body.toString()));
  }

  #unheard(error: Error): void {
    const { env, maxAgeMs, onLost } = this.#options;
    const contact = this.#contact;
    if (contact.is === 'lost') return;
    const { version } = contact;
    const since = contact.is === 'answering' ? contact.heardAt : contact.since;
    const isLost = env.clock.monotonic() - since >= maxAgeMs;
    this.#contact = isLost ? { is: 'lost', version } : { is: 'silent', since, version };
    if (isLost) onLost(error);
  }

  async #order(path: string, who: Commander, body: unknown): Promise<void> {
    await this.#post(path, { ...this.#headers(), ...commanderHeaders(who) }, body);
  }

  async #post(
    path: string,
    headers: Record<string, string>,
    body: unknown,
    timeoutMs = 10_000,
  ): Promise<Reply> {
    const reply = await this.#options.target.request({
      method: 'POST',
      path,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      timeoutMs,
    });
    if (reply.status >= 300) throw refusalOf(reply);
    return reply;
  }

  #headers(): Record<string, string> {
    const { secret } = this.#options;
    return secret === undefined ? {} : { authorization: `Bearer ${secret}` };
  }
}

/** What it refuses, in its own words where they are ours. */
function refusalOf({ status, body }: Reply): OrchdError {
  let said: { error?: { code?: unknown; message?: unknown; retriable?: unknown } } = {};
  try {
    said = JSON.parse(body.toString());
  } catch {
    // Not one of ours.
  }
  const { code, message, retriable } = said.error ?? {};
  if (typeof code !== 'string' || !isErrorCode(code)) {
    return new OrchdError('POOL_UNAVAILABLE', `the pool manager answered ${status}`);
  }
  const info = errorInfo(code, typeof message === 'string' ? message.slice(0, 2000) : undefined);
  return new OrchdError(info.code, info.message, typeof retriable === 'boolean' ? { retriable } : {});
}
