/**
 * The HTTP client of one pool manager. It long-polls the manager's state without a break, so that the last known state
 * is never older than one poll, and sends orders to start, drain and stop workers in between.
 */
import { backoffMs } from '../../kit/backoff.ts';
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import { parseInSlices } from '../../kit/json-parser.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { inSlices, ONE_TURN_BYTES } from '../../kit/slices.ts';
import { errorInfo, isErrorCode, OrchdError } from '../../model/errors.ts';
import { PoolState, type StartWorker, WorkerOrdered } from '../../model/pool-wire.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { commanderHeaders } from '../../wire/epochs.ts';
import type { OutboundReply, StreamReply, Target } from '../../wire/outbound.ts';

export interface PoolClientOptions {
  readonly env: Env;
  readonly url: string;
  readonly target: Target;
  readonly secret: string | undefined;
  /** A manager that has not answered for this long counts as lost until it answers again. */
  readonly maxAgeMs: number;
  /** The next poll waits until this has settled. */
  readonly onState: (state: PoolState) => Promise<void>;
  /** Called again for a lost manager that begins to answer with reports that are refused; `isRefusedReport` tells. */
  readonly onLost: (error: Error) => void;
  /** How long the first poll waits; 0 by default. */
  readonly delayMs?: number;
  /**
   * For a manager that may not exist: until its first answer it is polled with growing pauses, and `run` is called if it
   * has not answered after `afterMs`.
   */
  readonly giveUp?: { readonly afterMs: number; readonly run: () => void };
}

const checkState = checker(PoolState);
const checkOrdered = checker(WorkerOrdered);
/** About ten times what a report of as many workers as a pool may have takes. */
const MAX_STATE_BYTES = 2 ** 20;
/** The pause after a failed poll. */
const POLL_RETRY_MS = 250;
/** The pauses after failed polls of a manager that has never answered and may not exist. */
const UNANSWERED_PAUSES = { baseDelayMs: POLL_RETRY_MS, maxDelayMs: 30_000, jitter: 0.2 };
/** The pause after an answered poll: a manager that ignores `wait_ms` and answers at once must not cause a busy loop. */
const MIN_POLL_PAUSE_MS = 10;

/** Whether the manager answers; `version` is the last state version it sent. */
type Contact =
  | { readonly is: 'answering'; readonly answeredAt: number; readonly version: number }
  /** The last poll failed. `since` is the time of the last answer, or of the first poll where none was answered. */
  | {
      readonly is: 'silent';
      readonly since: number;
      readonly version: number | undefined;
      readonly error?: Error;
    }
  /** `isRefused`: the manager answers, but its reports cannot be used. */
  | { readonly is: 'lost'; readonly version: number | undefined; readonly isRefused: boolean };

export class PoolClient extends Service {
  readonly url: string;
  readonly #options: PoolClientOptions;
  #contact: Contact;
  #polling: Promise<void> = Promise.resolve();
  readonly #createdAt: number;
  /** Failed polls before the first answer. */
  #failures = 0;
  /** When the next poll is due, of the monotonic clock. */
  #nextPollAt: number;
  /** Cancels the timer that runs while the last state is not too old. */
  #cancelAgeTimer: () => void = () => undefined;

  constructor(options: PoolClientOptions) {
    super();
    this.#options = options;
    this.url = options.url;
    this.#createdAt = options.env.clock.monotonic();
    this.#nextPollAt = this.#createdAt + (options.delayMs ?? 0);
    this.#contact = { is: 'silent', since: this.#createdAt, version: undefined };
  }

  /** Whether a poll was ever answered. */
  get hasAnswered(): boolean {
    return this.#contact.version !== undefined;
  }

  /** Milliseconds until the next poll; 0 if one is under way. */
  get nextPollMs(): number {
    return Math.max(0, this.#nextPollAt - this.#options.env.clock.monotonic());
  }

  /** Whether the last poll was answered. */
  get isAnswering(): boolean {
    return this.#contact.is === 'answering';
  }

  /** The pause between two polls of a manager that has no versions, and so cannot hold a poll until something changes. */
  get #intervalMs(): number {
    return this.#options.maxAgeMs / 4;
  }

  protected async onStart(): Promise<void> {
    this.#polling = this.#poll();
  }

  protected async onStop(): Promise<void> {
    this.#options.target.close();
    await this.#polling;
    this.#cancelAgeTimer();
  }

  /** Returns the id of the worker; that of the order unless the manager says another. */
  async startWorker(order: StartWorker & { readonly worker_id: string }, who: Commander): Promise<string> {
    const { body } = await this.#order('/v2/workers/start', who, order);
    try {
      return checkOrdered(JSON.parse(body.toString())).worker_id;
    } catch {
      return order.worker_id;
    }
  }

  async stopWorker(worker: string, who: Commander): Promise<void> {
    await this.#order('/v2/workers/stop', who, { worker_id: worker });
  }

  async drainWorker(worker: string, who: Commander): Promise<void> {
    await this.#order(`/v2/workers/${encodeURIComponent(worker)}/drain`, who, {});
  }

  /** Posts a query that changes nothing at the manager, and returns its JSON answer. */
  async query(path: string, body: unknown, timeoutMs: number): Promise<unknown> {
    const reply = await this.#post(path, this.#headers(), body, timeoutMs);
    return JSON.parse(reply.body.toString());
  }

  /** Posts a query whose answer is a stream of events. */
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

  async #poll(): Promise<void> {
    const { clock, timers } = this.#options.env;
    if (this.#options.delayMs) await pause(timers, this.#options.delayMs, this.stopSignal);
    while (!this.stopSignal.aborted) {
      try {
        const state = await this.#fetchState();
        if (this.stopSignal.aborted) return;
        const { version } = state;
        this.#contact = { is: 'answering', answeredAt: clock.monotonic(), version: version ?? 0 };
        this.#cancelAgeTimer();
        await this.#options.onState(state);
        this.#cancelAgeTimer = timers.after(this.#options.maxAgeMs, () => this.#tooOld());
        await pause(timers, version === undefined ? this.#intervalMs : MIN_POLL_PAUSE_MS, this.stopSignal);
      } catch (error) {
        if (this.stopSignal.aborted) return;
        this.#notAnswered(error as Error);
        const pauseMs = this.#pauseMs();
        if (pauseMs === undefined) return this.#options.giveUp?.run();
        this.#nextPollAt = clock.monotonic() + pauseMs;
        await pause(timers, pauseMs, this.stopSignal);
      }
    }
  }

  /** The pause after a failed poll; undefined if there is to be no other. */
  #pauseMs(): number | undefined {
    const { giveUp, env } = this.#options;
    if (!giveUp || this.hasAnswered) return POLL_RETRY_MS;
    if (env.clock.monotonic() - this.#createdAt >= giveUp.afterMs) return undefined;
    return backoffMs(UNANSWERED_PAUSES, ++this.#failures, env.random.next());
  }

  /** The manager may hold the poll for half of `maxAgeMs`; the other half is left for its answer to arrive. */
  async #fetchState(): Promise<PoolState> {
    const { target, maxAgeMs, env } = this.#options;
    const { is, version } = this.#contact;
    const waitMs = is === 'lost' || version === undefined ? 0 : Math.floor(maxAgeMs / 2);
    const path = `/v2/state?after=${version ?? 0}&wait_ms=${waitMs}`;
    const reply = await target.request({
      path,
      headers: this.#headers(),
      timeoutMs: maxAgeMs,
      maxBytes: MAX_STATE_BYTES,
    });
    if (reply.status !== 200) throw errorFrom(reply);
    const text = reply.body.toString();
    const isSmall = text.length <= ONE_TURN_BYTES;
    try {
      return checkState(isSmall ? JSON.parse(text) : await inSlices(parseInSlices(text), env.timers));
    } catch (error) {
      const why = error instanceof OrchdError ? error.message : 'it is not JSON that can be used';
      throw new OrchdError('WORKER_PROTOCOL', `the report of the pool manager is refused: ${why}`);
    }
  }

  #notAnswered(error: Error): void {
    const { env, maxAgeMs, onLost } = this.#options;
    const contact = this.#contact;
    const { version } = contact;
    const isRefused = isRefusedReport(error);
    if (contact.is !== 'lost') {
      const since = contact.is === 'answering' ? contact.answeredAt : contact.since;
      const isLost = env.clock.monotonic() - since >= maxAgeMs;
      this.#contact = isLost ? { is: 'lost', version, isRefused } : { is: 'silent', since, version, error };
      if (isLost) onLost(error);
    } else if (isRefused && !contact.isRefused) {
      this.#contact = { is: 'lost', version, isRefused };
      onLost(error);
    }
  }

  /** The last state is `maxAgeMs` old. A poll may still be under way: it began when an earlier one had failed. */
  #tooOld(): void {
    const { version, ...contact } = this.#contact;
    if (contact.is === 'lost' || this.stopSignal.aborted) return;
    const failure = contact.is === 'silent' ? contact.error : undefined;
    const error = failure ?? new OrchdError('POOL_UNAVAILABLE', 'the pool manager has not answered in time');
    this.#contact = { is: 'lost', version, isRefused: isRefusedReport(error) };
    this.#options.onLost(error);
  }

  #order(path: string, who: Commander, body: unknown): Promise<OutboundReply> {
    return this.#post(path, { ...this.#headers(), ...commanderHeaders(who) }, body);
  }

  async #post(
    path: string,
    headers: Record<string, string>,
    body: unknown,
    timeoutMs = 10_000,
  ): Promise<OutboundReply> {
    const reply = await this.#options.target.request({
      method: 'POST',
      path,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      timeoutMs,
    });
    if (reply.status >= 300) throw errorFrom(reply);
    return reply;
  }

  #headers(): Record<string, string> {
    const { secret } = this.#options;
    return secret === undefined ? {} : { authorization: `Bearer ${secret}` };
  }
}

/** Whether a poll failed because the manager sent a report that cannot be used, or something else than a report. */
export const isRefusedReport = (error: Error): boolean =>
  error instanceof OrchdError && error.code === 'WORKER_PROTOCOL';

/** The error that the manager sent; POOL_UNAVAILABLE where its code is not in our catalogue. */
function errorFrom({ status, body }: OutboundReply): OrchdError {
  let answer: { error?: { code?: unknown; message?: unknown; retriable?: unknown } } = {};
  try {
    answer = JSON.parse(body.toString());
  } catch {
    // The body is not JSON: not an answer of a pool manager.
  }
  const { code, message, retriable } = answer.error ?? {};
  if (typeof code !== 'string' || !isErrorCode(code)) {
    return new OrchdError('POOL_UNAVAILABLE', `the pool manager answered ${status}`);
  }
  const info = errorInfo(code, typeof message === 'string' ? message.slice(0, 2000) : undefined);
  return new OrchdError(info.code, info.message, typeof retriable === 'boolean' ? { retriable } : {});
}
