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

type Prepare = (entries: readonly TokenEntry[]) => Promise<void>;

/** A hash that no secret has. The entry of a token that is held back stays: without any entry the server may be open. */
const NOBODY = '0'.repeat(64);

const isHeldBack = ({ id, cost_budget }: TokenEntry, known: ReadonlySet<string>): boolean =>
  cost_budget !== undefined && !known.has(id);

export class TokenFile extends Service {
  readonly #env: Env;
  readonly #path: string;
  readonly #logger: Logger | undefined;
  /** The server accepts every caller while there are no tokens, see AccessGateOptions. */
  readonly #openWithoutTokens: boolean;
  readonly #listeners: (() => void)[] = [];
  /** The entries that are in force. */
  #entries: readonly TokenEntry[] = [];
  /** The entries of the file as it was last read. */
  #read: readonly TokenEntry[] = [];
  /** What must be done with the entries before new tokens with a budget are accepted. */
  #prepare: Prepare | undefined;
  #isPrepared = true;
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

  /** Runs `prepare` for changed entries: until it resolves, new tokens with a budget are not accepted. */
  prepareWith(prepare: Prepare): Cancel {
    this.#prepare = prepare;
    return () => {
      if (this.#prepare === prepare) this.#prepare = undefined;
    };
  }

  /**
   * Puts the entries of the file in force. Revocations hold at once; a token that has a budget, and is new, only when the
   * budget is in force too.
   */
  async update(): Promise<void> {
    const read = this.#read;
    if (this.#prepare) {
      const accepted = this.#entries.filter(({ hash }) => hash !== NOBODY);
      const known = new Set(accepted.map(({ id }) => id));
      this.#accept(read.map((entry) => (isHeldBack(entry, known) ? { ...entry, hash: NOBODY } : entry)));
      this.#isPrepared = false;
      await this.#prepare(read);
    }
    if (read !== this.#read) return;
    this.#isPrepared = true;
    this.#accept(read);
  }

  #accept(entries: readonly TokenEntry[]): void {
    const isSame = JSON.stringify(entries) === JSON.stringify(this.#entries);
    if (isSame) return;
    this.#entries = entries;
    for (const listener of this.#listeners) listener();
  }

  protected async onStart(): Promise<void> {
    this.#text = await textOf(this.#env.disk, this.#path);
    this.#read = this.#text === undefined ? [] : parse(this.#text, this.#path);
    this.#entries = this.#read;
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
    if (text === undefined || text === this.#text) return this.#isPrepared ? undefined : this.#tryUpdate();
    this.#text = text;
    const hadTokens = this.#read.length > 0;
    this.#read = parse(text, this.#path);
    if (hadTokens && this.#read.length === 0) this.#warnOfEmpty();
    await this.#tryUpdate();
  }

  /** What fails is tried again with the next look at the file. */
  async #tryUpdate(): Promise<void> {
    const wasPrepared = this.#isPrepared;
    await this.update().catch((error: unknown) => {
      if (wasPrepared)
        this.#logger?.warn('the budgets of tokens cannot be set yet: new tokens with one are not accepted', {
          reason: error instanceof OrchdError ? error.message : 'unknown',
        });
    });
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
