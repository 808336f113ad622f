/**
 * The folder of a Chromium profile, with the cookies of a login in it. One process at a time uses it, held by a lock; a
 * file in it says that a person has to log in, which the gateway writes and `orchd gateway login` removes.
 */
import { join, resolve } from 'node:path';
import type { Cancel, Env } from '../../../../kit/env/env.ts';
import { every } from '../../../../kit/every.ts';
import { pause } from '../../../../kit/pause.ts';

const LOCK_FILE = 'orchd.lock';
const LOGIN_FILE = 'orchd-login-required';
const LOCK_POLL_MS = 50;
/** How often it is looked whether the person has logged in. */
const LOGIN_POLL_MS = 1000;

/** The folder of the profiles of all seats that name none, below the gateway's folder. */
export const PROFILES_FOLDER = 'profiles';

export const profileFolder = (gatewayFolder: string, seat: string, given: string | undefined): string =>
  resolve(given ?? join(gatewayFolder, PROFILES_FOLDER, seat));

export interface ProfileLock {
  release(): Promise<void>;
}

export class Profile {
  readonly folder: string;
  readonly #env: Env;

  constructor(env: Env, folder: string) {
    this.#env = env;
    this.folder = folder;
  }

  /** Takes the lock, after at most `waitMs`; undefined while another process, or another seat, uses the profile. */
  async lock(waitMs: number): Promise<ProfileLock | undefined> {
    const { clock, timers, disk } = this.#env;
    await disk.makeFolder(this.folder);
    await disk.closeToOthers?.(this.folder, () => true);
    const until = clock.monotonic() + waitMs;
    for (;;) {
      const lock = await disk.lock(join(this.folder, LOCK_FILE));
      if (lock || clock.monotonic() >= until) return lock;
      await pause(timers, LOCK_POLL_MS);
    }
  }

  async needsLogin(): Promise<boolean> {
    return (await this.#env.disk.stat(this.#loginFile)) !== undefined;
  }

  async requireLogin(): Promise<void> {
    const { disk } = this.#env;
    await disk.makeFolder(this.folder);
    await (await disk.open(this.#loginFile, 'create')).close();
  }

  loggedIn(): Promise<void> {
    return this.#env.disk.remove(this.#loginFile);
  }

  /** Calls `onLogin` once, when the person has logged in; not after a cancel. */
  watchLogin(onLogin: () => void): Cancel {
    let isOver = false;
    const end = (): void => {
      isOver = true;
      stop();
    };
    const check = async (): Promise<void> => {
      if ((await this.needsLogin()) || isOver) return;
      end();
      onLogin();
    };
    // A disk that fails is looked at again.
    const stop = every(this.#env.timers, LOGIN_POLL_MS, () => void check().catch(() => undefined));
    return end;
  }

  get #loginFile(): string {
    return join(this.folder, LOGIN_FILE);
  }
}
