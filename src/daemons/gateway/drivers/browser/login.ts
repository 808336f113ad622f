/** A window of Chromium with the profile of a seat, in which a person logs in. */
import type { BrowserContext, Page } from 'playwright-core';
import type { Env } from '../../../../kit/env/env.ts';
import { pause } from '../../../../kit/pause.ts';
import { OrchdError } from '../../../../model/errors.ts';
import type { PageOrder } from '../../../../model/gateway-wire.ts';
import { findChromium, launchChromium } from './chromium-package.ts';
import { isOfSeat } from './conversation.ts';
import { lookAt } from './page-view.ts';
import type { Profile } from './profile.ts';
import { Settled } from './settled.ts';

export interface LoginOptions {
  readonly env: Env;
  readonly profile: Profile;
  readonly url: string;
  readonly page: PageOrder;
  /** The PATH on which Chromium is looked for. */
  readonly path: string;
  readonly signal: AbortSignal;
  /** Called when the window is open. */
  onOpen(): void;
}

/** `closed`: the person has closed the window, or was too slow, and the page has not shown its input. */
export type LoginEnd = 'logged in' | 'closed';

const POLL_MS = 250;
const START_TIMEOUT_MS = 60_000;
const PERSON_TIMEOUT_MS = 3_600_000;

/** Waits until the page shows its input, or the window is closed. Throws STORE_LOCKED while the profile is in use. */
export async function logIn(options: LoginOptions): Promise<LoginEnd> {
  const { env, profile, page: order, path } = options;
  const lock = await profile.lock(0);
  if (!lock)
    throw new OrchdError(
      'STORE_LOCKED',
      `a gateway uses the profile ${profile.folder}: stop it first, or log in while the seat waits for it (auth_required)`,
    );
  try {
    const context = await launchChromium({
      profile: profile.folder,
      executable: await findChromium(env.disk, order.executable, path),
      headless: order.headless,
      args: order.args,
      timeoutMs: START_TIMEOUT_MS,
    });
    try {
      const end = await awaitInput(context, options);
      if (end === 'logged in') await profile.loggedIn();
      return end;
    } finally {
      await context.close().catch(() => undefined);
    }
  } finally {
    await lock.release();
  }
}

async function awaitInput(context: BrowserContext, options: LoginOptions): Promise<LoginEnd> {
  const { env, url, page: order, signal, onOpen } = options;
  const first = context.pages()[0] ?? (await context.newPage());
  // The person sees what the page says, also where it cannot be loaded.
  await first
    .goto(url, { timeout: order.load_timeout_ms, waitUntil: 'domcontentloaded' })
    .catch(() => undefined);
  onOpen();
  const until = env.clock.monotonic() + PERSON_TIMEOUT_MS;
  const settled = new Settled(env, order.settle_ms);
  while (!signal.aborted && context.pages().length > 0 && env.clock.monotonic() < until) {
    const shown = await Promise.all(context.pages().map((page) => isLoggedIn(page, options)));
    const isShown = shown.includes(true);
    // A page may show its input for a moment before it goes to its login form.
    if (settled.look(String(isShown)) && isShown) return 'logged in';
    await pause(env.timers, POLL_MS, signal);
  }
  return 'closed';
}

async function isLoggedIn(page: Page, { url, page: { selectors } }: LoginOptions): Promise<boolean> {
  if (!isOfSeat(page.url(), url)) return false;
  const view = await lookAt(page, selectors).catch(() => undefined);
  return view?.hasInput === true && !view.hasLogin;
}
