/** Changes to the token file of a data folder: one at a time, so that no revocation is lost to another change. */
import { join, resolve } from 'node:path';
import type { Env } from '../kit/env/env.ts';
import { poll } from '../kit/poll.ts';
import { OrchdError } from '../model/errors.ts';
import { readTokens, TOKEN_FILE, writeTokens } from '../wire/token-file.ts';
import type { TokenEntry } from '../wire/tokens.ts';

/** The lock file beside the token file; the lock ends with the process that holds it. */
const LOCK = 'tokens.lock';
/** How long to wait until another process releases the lock. */
const LOCK_WAIT = { everyMs: 100, atMostMs: 5000 };

export class TokenStore {
  readonly #env: Env;
  readonly #folder: string;
  readonly #path: string;

  constructor(env: Env, folder: string) {
    this.#env = env;
    this.#folder = resolve(folder);
    this.#path = join(this.#folder, TOKEN_FILE);
  }

  get folder(): string {
    return this.#folder;
  }

  list(): Promise<readonly TokenEntry[]> {
    return readTokens(this.#env.disk, this.#path);
  }

  /** Replaces the tokens by what `make` returns; returns their number before and after. */
  async change(
    make: (tokens: readonly TokenEntry[]) => readonly TokenEntry[],
  ): Promise<{ readonly before: number; readonly after: number }> {
    const { disk } = this.#env;
    await disk.makeFolder(this.#folder);
    const lock = await this.#lock();
    try {
      const before = await this.list();
      const after = make(before);
      if (after !== before) await writeTokens(disk, this.#folder, this.#path, after);
      return { before: before.length, after: after.length };
    } finally {
      await lock.release();
    }
  }

  async #lock(): Promise<{ release(): Promise<void> }> {
    const path = join(this.#folder, LOCK);
    const lock = await poll(this.#env, LOCK_WAIT, () => this.#env.disk.lock(path));
    if (lock) return lock;
    throw new OrchdError('STORE_LOCKED', 'another process is changing the tokens');
  }
}
