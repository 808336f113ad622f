/** Reads and writes the file of token hashes in a data folder; a running server polls it for changes. */
import type { Cancel, Disk, Env } from '../kit/env/env.ts';
import { every } from '../kit/every.ts';
import type { Logger } from '../kit/logger.ts';
import { Service } from '../kit/service.ts';
import { readWholeFile, writeWholeFile } from '../kit/whole-file.ts';
import { OrchdError } from '../model/errors.ts';
import { checkUnique, parseTokenList } from './token-list.ts';
import type { TokenEntry } from './tokens.ts';

/** Name of the file in the data folder. */
export const TOKEN_FILE = 'tokens.json';

const FILE_POLL_MS = 2000;

export class TokenFile extends Service {
  readonly #env: Env;
  readonly #path: string;
  readonly #logger: Logger | undefined;
  /** The server accepts every caller while there are no tokens, see AccessGateOptions. */
  readonly #openWithoutTokens: boolean;
  readonly #listeners: (() => void)[] = [];
  #entries: readonly TokenEntry[] = [];
  /** The text that was read last, whether or not it was valid. */
  #text: string | undefined;
  #stopPolling: Cancel | undefined;

  constructor(env: Env, path: string, logger?: Logger, openWithoutTokens = false) {
    super();
    this.#openWithoutTokens = openWithoutTokens;
    this.#env = env;
    this.#path = path;
    this.#logger = logger;
  }

  get entries(): readonly TokenEntry[] {
    return this.#entries;
  }

  /** Calls `listener` whenever the tokens have changed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  protected async onStart(): Promise<void> {
    this.#text = await textOf(this.#env.disk, this.#path);
    this.#entries = this.#text === undefined ? [] : parse(this.#text, this.#path);
    this.#stopPolling = every(this.#env.timers, FILE_POLL_MS, () => {
      this.#reload().catch((error: unknown) => this.#keepFormer(error));
    });
  }

  protected async onStop(): Promise<void> {
    this.#stopPolling?.();
  }

  /**
   * If the file is missing, cannot be read or is not valid, the current tokens stay: an empty list could open the server
   * to everybody.
   */
  async #reload(): Promise<void> {
    const text = await textOf(this.#env.disk, this.#path);
    if (text === undefined || text === this.#text) return;
    this.#text = text;
    const hadTokens = this.#entries.length > 0;
    this.#entries = parse(text, this.#path);
    if (hadTokens && this.#entries.length === 0) this.#warnOfEmpty();
    for (const listener of this.#listeners) listener();
  }

  #warnOfEmpty(): void {
    this.#logger?.warn(
      this.#openWithoutTokens
        ? 'the token file has no tokens any more: every caller on this machine is accepted as an admin'
        : 'the token file has no tokens any more: no caller is accepted',
    );
  }

  #keepFormer(error: unknown): void {
    this.#logger?.warn('the token file cannot be used; the former tokens stay in force', {
      reason: error instanceof OrchdError ? error.message : 'it cannot be read',
    });
  }
}

/** The tokens as a server reads them at its start: their names must be unique. */
export async function readUniqueTokens(disk: Disk, path: string): Promise<readonly TokenEntry[]> {
  const text = await textOf(disk, path);
  return text === undefined ? [] : parse(text, path);
}

function parse(text: string, path: string): readonly TokenEntry[] {
  const tokens = parseTokenList(text, path);
  checkUnique(tokens, path);
  return tokens;
}

/** Undefined if there is no file. */
async function textOf(disk: Disk, path: string): Promise<string | undefined> {
  try {
    return (await readWholeFile(disk, path))?.toString('utf8');
  } catch {
    throw new OrchdError('CONFIG_INVALID', 'the token file cannot be read');
  }
}

/** The tokens of a file; none if there is no file. Their names may repeat, so that one of them can be revoked. */
export async function readTokens(disk: Disk, path: string): Promise<readonly TokenEntry[]> {
  const text = await textOf(disk, path);
  return text === undefined ? [] : parseTokenList(text, path);
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
