/** Reads and writes the file of token hashes in a data folder; a running server polls it for changes. */
import type { Cancel, Disk, Env } from '../kit/env/env.ts';
import { every } from '../kit/every.ts';
import { Service } from '../kit/service.ts';
import { readWholeFile, writeWholeFile } from '../kit/whole-file.ts';
import { OrchdError } from '../model/errors.ts';
import type { TokenEntry } from './tokens.ts';

/** Name of the file in the data folder. */
export const TOKEN_FILE = 'tokens.json';

const FILE_POLL_MS = 2000;

export class TokenFile extends Service {
  readonly #env: Env;
  readonly #path: string;
  #entries: readonly TokenEntry[] = [];
  #stopPolling: Cancel | undefined;

  constructor(env: Env, path: string) {
    super();
    this.#env = env;
    this.#path = path;
  }

  get entries(): readonly TokenEntry[] {
    return this.#entries;
  }

  protected async onStart(): Promise<void> {
    this.#entries = await readTokens(this.#env.disk, this.#path);
    this.#stopPolling = every(this.#env.timers, FILE_POLL_MS, () => {
      this.#reload().catch(() => undefined);
    });
  }

  protected async onStop(): Promise<void> {
    this.#stopPolling?.();
  }

  /**
   * If the file is missing or cannot be read, the current tokens stay: an empty list could open the server to
   * everybody.
   */
  async #reload(): Promise<void> {
    if (await this.#env.disk.stat(this.#path)) this.#entries = await readTokens(this.#env.disk, this.#path);
  }
}

export async function readTokens(disk: Disk, path: string): Promise<readonly TokenEntry[]> {
  try {
    const bytes = await readWholeFile(disk, path);
    if (!bytes) return [];
    const { tokens } = JSON.parse(bytes.toString('utf8')) as { tokens: TokenEntry[] };
    if (!Array.isArray(tokens)) throw new Error('not a list');
    return tokens;
  } catch {
    throw new OrchdError('CONFIG_INVALID', 'the token file cannot be read');
  }
}

export async function writeTokens(
  disk: Disk,
  folder: string,
  path: string,
  tokens: readonly TokenEntry[],
): Promise<void> {
  await disk.makeFolder(folder);
  await writeWholeFile(disk, path, `${JSON.stringify({ tokens }, undefined, 2)}\n`);
}
