/** The Chromium of one seat: started by the first request that needs it, and again after it has died. */
import type { BrowserContext, Page } from 'playwright-core';
import type { Env } from '../../../../kit/env/env.ts';
import { within } from '../../../../kit/within.ts';
import { OrchdError } from '../../../../model/errors.ts';
import type { PageOrder } from '../../../../model/gateway-wire.ts';
import { findChromium, launchChromium } from './chromium-package.ts';
import type { Profile, ProfileLock } from './profile.ts';

export interface ChromiumHostOptions {
  readonly env: Env;
  readonly page: PageOrder;
  readonly profile: Profile;
  /** The PATH on which Chromium is looked for. */
  readonly path: string;
}

/** The driver of a seat that was changed closes its Chromium while that of the new one waits for the profile. */
const LOCK_WAIT_MS = 10_000;
const START_TIMEOUT_MS = 60_000;
const CLOSE_TIMEOUT_MS = 5000;

interface Running {
  readonly context: BrowserContext;
  readonly lock: ProfileLock;
}

export class ChromiumHost {
  readonly #options: ChromiumHostOptions;
  #running: Promise<Running> | undefined;
  /** What #running has settled with, until it has died or is closed. */
  #live: Running | undefined;
  #pages = 0;
  /** No new page is opened on the present Chromium: it ends with its last page. */
  #isRetiring = false;

  constructor(options: ChromiumHostOptions) {
    this.#options = options;
  }

  /** Opens a page for one request, which `closePage` ends. Throws an OrchdError. */
  async openPage(): Promise<Page> {
    this.#pages++;
    try {
      this.#running ??= this.#start();
      const { context } = await this.#running;
      const page = await context.newPage();
      refuseExtras(page);
      return page;
    } catch (error) {
      await this.#released();
      throw error instanceof OrchdError ? error : died(error);
    }
  }

  async closePage(page: Page): Promise<void> {
    const { timers } = this.#options.env;
    const closed = page.close().catch(() => undefined);
    await within(timers, CLOSE_TIMEOUT_MS, closed, undefined);
    await this.#released();
  }

  /** Ends Chromium as soon as no request uses it, so that a person can log in with the profile. */
  retire(): void {
    this.#isRetiring = true;
  }

  /** Ends Chromium now. */
  async close(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    this.#isRetiring = false;
    const { context, lock } = (await running?.catch(() => undefined)) ?? {};
    if (!context || this.#live?.context !== context) return;
    this.#live = undefined;
    await within(
      this.#options.env.timers,
      CLOSE_TIMEOUT_MS,
      context.close().catch(() => undefined),
      undefined,
    );
    await lock?.release();
  }

  async #released(): Promise<void> {
    this.#pages--;
    if (this.#isRetiring && this.#pages === 0) await this.close();
  }

  async #start(): Promise<Running> {
    const { env, page, profile, path } = this.#options;
    const lock = await profile.lock(LOCK_WAIT_MS);
    try {
      if (!lock)
        throw new OrchdError('WORKER_UNAVAILABLE', 'another process uses the profile of this seat', {
          turnedAway: 'unreachable',
        });
      const context = await launchChromium({
        profile: profile.folder,
        executable: await findChromium(env.disk, page.executable, path),
        headless: page.headless,
        args: page.args,
        timeoutMs: START_TIMEOUT_MS,
      });
      const running = { context, lock };
      this.#live = running;
      context.once('close', () => void this.#died(running));
      return running;
    } catch (error) {
      this.#running = undefined;
      await lock?.release();
      throw error;
    }
  }

  /** The next request starts Chromium again. */
  async #died({ context, lock }: Running): Promise<void> {
    if (this.#live?.context !== context) return;
    this.#live = undefined;
    this.#running = undefined;
    this.#isRetiring = false;
    await lock.release();
  }
}

/** Windows, dialogs and downloads of the page would wait for a person who is not there. */
function refuseExtras(page: Page): void {
  page.on('popup', (popup) => void popup.close().catch(() => undefined));
  page.on('dialog', (dialog) => void dialog.dismiss().catch(() => undefined));
  page.on('download', (download) => void download.cancel().catch(() => undefined));
}

/** For a request whose prompt was not sent. */
export const died = (cause: unknown): OrchdError =>
  new OrchdError(
    'WORKER_UNAVAILABLE',
    'Chromium has ended before the prompt was sent',
    { retriable: true, isUncharged: true, reason: 'connection_lost' },
    { cause },
  );
