/**
 * One request on a chat page: opens the conversation, types the prompt, sends it once, and reads the answer as it grows.
 *
 * P1  The prompt is typed and sent, and its answer read, only on a page with the origin of the seat.
 * P2  `isSent` is set before the send button is pressed: from then on the prompt is never sent again, and whatever
 *     prevents the answer from being read makes the outcome unknown, unless the page itself reports a failure.
 */
import type { Page } from 'playwright-core';
import type { Env } from '../../../../kit/env/env.ts';
import { pause } from '../../../../kit/pause.ts';
import { OrchdError } from '../../../../model/errors.ts';
import type { PageOrder } from '../../../../model/gateway-wire.ts';
import { isOfSeat, type Thread } from './conversation.ts';
import { lookAt, type PageView } from './page-view.ts';
import { Settled } from './settled.ts';

export interface PageTurnOptions {
  readonly env: Env;
  readonly page: Page;
  /** The page of a new conversation. */
  readonly url: string;
  readonly order: PageOrder;
  /** Aborted when the request is over for another reason than its answer. */
  readonly signal: AbortSignal;
}

export interface PageAnswer {
  readonly text: string;
  /** The URL of the page after the answer. */
  readonly url: string;
}

const POLL_MS = 100;
/** A look at a page that navigates fails; so many failures in a row are waited out. */
const MAX_FAILED_LOOKS = 50;

export class PageTurn {
  readonly #options: PageTurnOptions;
  #isSent = false;
  /** The numbers of answers and errors on the page before the prompt was sent: only later ones belong to the prompt. */
  #before: Pick<PageView, 'answers' | 'errors'> = { answers: 0, errors: 0 };

  constructor(options: PageTurnOptions) {
    this.#options = options;
  }

  get isSent(): boolean {
    return this.#isSent;
  }

  /** Opens the page, and waits until the prompt can be typed and earlier answers of the thread are shown. */
  async open(thread: Thread): Promise<void> {
    const { page, url, order, env } = this.#options;
    const timeout = order.load_timeout_ms;
    await page.goto(thread ?? url, { timeout, waitUntil: 'domcontentloaded' }).catch(failedLoad);
    const until = env.clock.monotonic() + timeout;
    const settled = new Settled(env, order.settle_ms);
    for (;;) {
      const view = await this.#look();
      if (view.hasLogin) throw new LoginShown();
      const isReady = view.hasInput && view.hasSend && isOfSeat(page.url(), url);
      // The page of a thread shows its earlier answers one after another; those of a new one are none.
      const isComplete =
        thread === undefined || (view.answers > 0 && settled.look(`${view.answers} ${view.text}`));
      if (isReady && isComplete) {
        this.#before = view;
        return;
      }
      if (env.clock.monotonic() >= until) throw this.#notReady(view);
      await this.#pause();
    }
  }

  /** Types the prompt and sends it. */
  async send(prompt: string): Promise<void> {
    const { page, order, signal } = this.#options;
    const { input, send } = order.selectors;
    const timeout = order.load_timeout_ms;
    const field = page.locator(`css=${input}`).filter({ visible: true }).first();
    const button = page.locator(`css=${send}`).filter({ visible: true }).first();
    this.#assertOrigin();
    await field.fill(prompt, { timeout }).catch((error) => this.#unusable('input', error));
    // A trial presses nothing: a button that cannot be pressed is found out while nothing is sent.
    await button.click({ timeout, trial: true }).catch((error) => this.#unusable('send', error));
    this.#assertOrigin();
    signal.throwIfAborted();
    this.#isSent = true;
    // The page may navigate at once; whether it does is no concern of the click.
    await button.click({ timeout, noWaitAfter: true });
  }

  /** Reads the answer until the page has ended it; `onText` gets the text of every look. */
  async read(onText: (text: string) => void): Promise<PageAnswer> {
    const { page, order, env } = this.#options;
    const settled = new Settled(env, order.settle_ms);
    const firstUntil = env.clock.monotonic() + order.load_timeout_ms;
    for (;;) {
      const view = await this.#look();
      if (view.hasLogin) throw new LoginShown();
      this.#assertOrigin();
      if (view.errors > this.#before.errors)
        throw new OrchdError('EXECUTION_FAILED', `the page reports an error: ${view.errorText}`, {
          retriable: false,
        });
      const hasBegun = view.answers > this.#before.answers;
      if (hasBegun) onText(view.text);
      if (!hasBegun && !view.isBusy && env.clock.monotonic() >= firstUntil) throw this.#noAnswer();
      const isStill = settled.look(`${hasBegun} ${view.isBusy} ${view.text}`);
      if (hasBegun && !view.isBusy && view.text !== '' && isStill)
        return { text: view.text, url: page.url() };
      await this.#pause();
    }
  }

  /** A look; one that fails while the page navigates is repeated. */
  async #look(): Promise<PageView> {
    const { page, order, signal } = this.#options;
    for (let failures = 0; ; failures++) {
      try {
        return await lookAt(page, order.selectors);
      } catch (error) {
        signal.throwIfAborted();
        if (isBadSelector(error)) throw badSelector(error);
        if (page.isClosed() || failures >= MAX_FAILED_LOOKS) throw error;
        await this.#pause();
      }
    }
  }

  async #pause(): Promise<void> {
    const { env, signal, page } = this.#options;
    await pause(env.timers, POLL_MS, signal);
    signal.throwIfAborted();
    if (page.isClosed()) throw new Error('the page is closed');
  }

  #assertOrigin(): void {
    const { page, url } = this.#options;
    if (!isOfSeat(page.url(), url)) throw this.#protocol('the page is now at another origin than the seat');
  }

  #notReady({ hasInput, hasSend, answers }: PageView): OrchdError {
    const { page, url, order } = this.#options;
    if (!isOfSeat(page.url(), url))
      return this.#protocol('the page has gone to another origin than the seat');
    if (!hasInput) return this.#protocol(noMatch('input', order.selectors.input));
    if (!hasSend) return this.#protocol(noMatch('send', order.selectors.send));
    if (answers === 0) return this.#protocol(noMatch('answer', order.selectors.answer));
    return this.#protocol('the answers of the thread were still changing');
  }

  #unusable(name: 'input' | 'send', error: unknown): never {
    const { page, order, signal } = this.#options;
    signal.throwIfAborted();
    if (page.isClosed() || !isTimeout(error)) throw error;
    throw this.#protocol(`"selectors.${name}" (${order.selectors[name]}) matches nothing that can be used`);
  }

  #noAnswer(): OrchdError {
    const { order } = this.#options;
    const { message } = this.#protocol(noMatch('answer', order.selectors.answer));
    return new OrchdError('UNKNOWN_OUTCOME', `${message}; the prompt was sent`);
  }

  /** The page is named without its query and fragment, which may hold secrets. */
  #protocol(what: string): OrchdError {
    const { origin = '', pathname = '' } = URL.parse(this.#options.page.url()) ?? {};
    return new OrchdError('WORKER_PROTOCOL', `${what} (page ${origin}${pathname})`, { isUncharged: true });
  }
}

/** The page shows its login form. */
export class LoginShown extends Error {}

const noMatch = (name: string, selector: string): string =>
  `"selectors.${name}" (${selector}) matches nothing: the page may have changed`;

const isTimeout = (error: unknown): boolean => (error as Error).name === 'TimeoutError';

const isBadSelector = (error: unknown): boolean =>
  /is not a valid selector/.test((error as Error).message ?? '');

const badSelector = (error: unknown): OrchdError => {
  const selector = /'([^']{1,200})' is not a valid selector/.exec((error as Error).message)?.[1] ?? '';
  return new OrchdError('WORKER_PROTOCOL', `${selector} is no valid CSS selector`, { isUncharged: true });
};

/** The page was not loaded, so the provider has not received anything. A page that was closed meanwhile says that itself. */
function failedLoad(error: Error): never {
  if (!/net::|TimeoutError/.test(`${error.name} ${error.message}`)) throw error;
  const code = /net::(ERR_[A-Z_]+)/.exec(error.message)?.[1] ?? 'no answer in time';
  throw new OrchdError('WORKER_UNAVAILABLE', `the page could not be loaded (${code})`, {
    turnedAway: 'unreachable',
    reason: 'unreachable',
  });
}
