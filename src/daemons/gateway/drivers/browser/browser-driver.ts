/**
 * Uses a chat page in Chromium as a person would. The page keeps the conversation; the gateway keeps its URL only, as
 * `thread_id` of the result. Nothing can be found again after a crash: a prompt that was sent has an unknown outcome.
 */
import type { Page } from 'playwright-core';
import type { Cancel, Env } from '../../../../kit/env/env.ts';
import { OrchdError } from '../../../../model/errors.ts';
import type { PageOrder } from '../../../../model/gateway-wire.ts';
import type { TurnedAwayReason } from '../../../../model/reasons.ts';
import type { ExecutionResult } from '../../../../model/worker-wire.ts';
import type { Driver, DriverAbilities, DriverCall } from '../../driver.ts';
import { ChromiumHost, died } from './chromium-host.ts';
import { promptOf, type Thread, threadAt, threadOf } from './conversation.ts';
import { GrowingAnswer } from './growing-answer.ts';
import { LoginShown, PageTurn } from './page-turn.ts';
import type { Profile } from './profile.ts';

export interface BrowserDriverOptions {
  readonly env: Env;
  readonly url: string;
  readonly page: PageOrder;
  readonly profile: Profile;
  /** The PATH on which Chromium is looked for. */
  readonly path: string;
}

type Over = 'cancelled' | 'closed' | 'late';

/** The driver gives up before the gateway does, which could not tell whether the prompt was sent. */
const MARGIN_MS = 1000;

export class BrowserDriver implements Driver {
  readonly abilities: DriverAbilities = {
    finds: 'nothing',
    keepsMs: 0,
    cancels: 'disconnect',
    billsWhenCut: true,
  };
  readonly #options: BrowserDriverOptions;
  readonly #host: ChromiumHost;
  readonly #closed = new AbortController();
  #onHold: (reason: TurnedAwayReason | undefined) => void = () => undefined;
  #cancelWatch: Cancel | undefined;

  constructor(options: BrowserDriverOptions) {
    this.#options = options;
    this.#host = new ChromiumHost(options);
  }

  /** A profile that needed a login when an earlier process ended still does. */
  watchHold(onHold: (reason: TurnedAwayReason | undefined) => void): void {
    this.#onHold = onHold;
    void this.#options.profile.needsLogin().then(
      (needed) => needed && !this.#closed.signal.aborted && this.#hold(),
      () => undefined,
    );
  }

  async run(call: DriverCall): Promise<ExecutionResult> {
    const { url, profile } = this.#options;
    const thread = threadOf(call.request, url);
    const prompt = promptOf(call.request, thread);
    if (await profile.needsLogin()) throw this.#loginRequired();
    const request = new BrowserRequest(this.#options, call, this.#closed.signal);
    try {
      const page = await request.unlessOver(this.#host.openPage(), (late) => this.#host.closePage(late));
      try {
        return await request.run(page, thread, prompt);
      } catch (error) {
        if (error instanceof LoginShown) await this.#requireLogin();
        throw error;
      } finally {
        await this.#host.closePage(page);
      }
    } catch (error) {
      throw request.failureOf(error, () => this.#loginRequired());
    } finally {
      request.end();
    }
  }

  async resume(): Promise<ExecutionResult> {
    throw new OrchdError(
      'UNKNOWN_OUTCOME',
      'the answer of a page is not found again: look at the page itself',
    );
  }

  close(): void {
    this.#closed.abort();
    this.#cancelWatch?.();
    void this.#host.close();
  }

  /** Pauses the seat until a person has logged in. Chromium ends, because that person needs the profile. */
  async #requireLogin(): Promise<void> {
    await this.#options.profile.requireLogin();
    this.#host.retire();
    this.#hold();
  }

  #hold(): void {
    this.#onHold('auth_required');
    this.#cancelWatch?.();
    this.#cancelWatch = this.#options.profile.watchLogin(() => this.#onHold(undefined));
  }

  #loginRequired(): OrchdError {
    return new OrchdError('EXECUTION_FAILED', 'the page asks for a login: run `orchd gateway login SEAT`', {
      turnedAway: 'auth_required',
      reason: 'auth_required',
    });
  }
}

/** One request with its time limit, and what its end means. */
class BrowserRequest {
  readonly #options: BrowserDriverOptions;
  readonly #call: DriverCall;
  readonly #over = new AbortController();
  readonly #cleanUp: Cancel[] = [];
  #turn: PageTurn | undefined;
  #why: Over | undefined;

  constructor(options: BrowserDriverOptions, call: DriverCall, closed: AbortSignal) {
    this.#options = options;
    this.#call = call;
    this.#limit(call.timeoutMs - MARGIN_MS);
    this.#stopWith(call.signal, 'cancelled');
    this.#stopWith(closed, 'closed');
  }

  /** Settles like the promise, or rejects as soon as the request is over; what comes later is handed to `onLate`. */
  unlessOver<T>(promise: Promise<T>, onLate: (late: T) => unknown): Promise<T> {
    const { signal } = this.#over;
    return new Promise((resolve, reject) => {
      const stop = (): void => reject(new Error('the request is over'));
      if (signal.aborted) stop();
      signal.addEventListener('abort', stop, { once: true });
      promise.then((value) => {
        if (signal.aborted) void onLate(value);
        else resolve(value);
      }, reject);
    });
  }

  async run(page: Page, thread: Thread, prompt: string): Promise<ExecutionResult> {
    const { env, url, page: order } = this.#options;
    const { signal } = this.#over;
    // Calls to Chromium have no signals: they are ended by closing the page.
    signal.addEventListener('abort', () => void page.close().catch(() => undefined), { once: true });
    page.once('crash', () => void page.close().catch(() => undefined));
    const turn = new PageTurn({ env, page, url, order, signal });
    this.#turn = turn;
    await turn.open(thread);
    await turn.send(prompt);
    this.#limit(order.answer_timeout_ms);
    const answer = new GrowingAnswer((text) => this.#call.emit({ text }));
    const { text, url: at } = await turn.read((seen) => order.stream && answer.look(seen));
    answer.end(text);
    const next = threadAt(at, url);
    return { text, finish_reason: 'stop', ...(next !== undefined && { thread_id: next }) };
  }

  failureOf(error: unknown, loginRequired: () => OrchdError): OrchdError {
    const isSent = this.#turn?.isSent === true;
    if (this.#why === 'cancelled') return new OrchdError('CANCELLED');
    if (this.#why === 'closed')
      return new OrchdError('UNKNOWN_OUTCOME', 'the gateway was stopped during the call');
    if (this.#why === 'late') return this.#late(isSent);
    if (error instanceof LoginShown) {
      const message = 'the page asks for a login since the prompt was sent: run `orchd gateway login SEAT`';
      return isSent
        ? new OrchdError('UNKNOWN_OUTCOME', message, { reason: 'auth_required' })
        : loginRequired();
    }
    if (isSent) return afterSend(error);
    return error instanceof OrchdError ? error : died(error);
  }

  end(): void {
    for (const cleanUp of this.#cleanUp) cleanUp();
  }

  /** Not retriable once the prompt was sent: the page may still answer it. */
  #late(isSent: boolean): OrchdError {
    const message = isSent
      ? 'the page has not ended its answer in time'
      : 'the page could not be asked within the time of the request';
    return new OrchdError('WORKER_TIMEOUT', message, { reason: 'timeout', retriable: !isSent });
  }

  /** The request is over after this time from now. */
  #limit(ms: number): void {
    this.#cleanUp.push(this.#options.env.timers.after(Math.max(1, ms), () => this.#stop('late')));
  }

  #stopWith(signal: AbortSignal, why: Over): void {
    const stop = (): void => this.#stop(why);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop);
    this.#cleanUp.push(() => signal.removeEventListener('abort', stop));
  }

  #stop(why: Over): void {
    this.#why ??= why;
    this.#over.abort();
  }
}

/** The prompt was sent: only what the page itself says about it is known. */
function afterSend(error: unknown): OrchdError {
  if (error instanceof OrchdError && (error.code === 'UNKNOWN_OUTCOME' || error.code === 'EXECUTION_FAILED'))
    return error;
  const message =
    error instanceof OrchdError
      ? `${error.message}; the prompt was sent`
      : 'Chromium has ended after the prompt was sent';
  return new OrchdError('UNKNOWN_OUTCOME', message, { reason: 'connection_lost' }, { cause: error });
}
