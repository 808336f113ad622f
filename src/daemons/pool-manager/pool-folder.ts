/** The data folder of a pool manager: locked by one manager at a time, with its registry id, port and token. */
import type { Env } from '../../kit/env/env.ts';
import { isObject, RecordFile, readRecord } from '../../kit/record-file.ts';
import { readWholeFile, writeWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { makeToken } from '../../wire/tokens.ts';
import { layoutOf, type PoolLayout } from './layout.ts';

/** `registry.json` */
interface PoolRegistryRecord {
  readonly id: string;
  /** The last port: workers that are starting report to it. */
  readonly port?: number;
  /** All state versions below this one are reserved. */
  readonly versions: number;
}

/** State versions are reserved on disk in blocks before they are used, so that a restart never goes back to a used one. */
const VERSION_BLOCK = 1000;

export class PoolFolder {
  readonly layout: PoolLayout;
  /** The first state version: above all that an earlier manager has used. */
  readonly firstVersion: number;
  readonly #file: RecordFile<PoolRegistryRecord>;
  readonly #release: () => Promise<void>;

  private constructor(
    layout: PoolLayout,
    file: RecordFile<PoolRegistryRecord>,
    release: () => Promise<void>,
  ) {
    this.layout = layout;
    this.#file = file;
    this.firstVersion = file.value.versions - VERSION_BLOCK;
    this.#release = release;
  }

  static async open(env: Env, path: string): Promise<PoolFolder> {
    const layout = layoutOf(path);
    for (const folder of [layout.folder, layout.workers, layout.logs]) await env.disk.makeFolder(folder);
    const lock = await env.disk.lock(layout.lock);
    if (!lock) throw new OrchdError('STORE_LOCKED', 'another pool manager has this folder');
    try {
      const known: Partial<PoolRegistryRecord> =
        (await readRecord(env.disk, layout.registry, isObject)) ?? {};
      const first = Number.isSafeInteger(known.versions) ? (known.versions as number) : 1;
      const id = typeof known.id === 'string' && known.id !== '' ? known.id : env.random.hex(8);
      const file = new RecordFile(env, layout.registry, { ...known, id, versions: first + VERSION_BLOCK });
      await file.keep({});
      return new PoolFolder(layout, file, () => lock.release());
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** The identity of this folder; a new one means that all workers were forgotten. */
  get registry(): string {
    return this.#file.value.id;
  }

  get lastPort(): number | undefined {
    return this.#file.value.port;
  }

  async rememberPort(port: number): Promise<void> {
    if (port !== this.#file.value.port) await this.#file.keep({ port });
  }

  /** Reserves the next block of versions in time. */
  reserve(version: number): void {
    const { versions } = this.#file.value;
    if (version + VERSION_BLOCK / 2 < versions) return;
    this.#file.keep({ versions: versions + VERSION_BLOCK }).catch(() => undefined);
  }

  async close(): Promise<void> {
    await this.#file.settled().catch(() => undefined);
    await this.#release();
  }
}

const MAX_TOKEN_BYTES = 1024;

/** The token in a file; undefined where there is no such file. */
export async function readToken(env: Env, path: string): Promise<string | undefined> {
  return (await readWholeFile(env.disk, path, MAX_TOKEN_BYTES))?.toString('utf8').trim();
}

/** The token in a file; makes a token and writes the file where it does not exist or is empty. */
export async function readOrMakeToken(env: Env, path: string): Promise<string> {
  const known = await readToken(env, path);
  if (known !== undefined && known !== '') return known;
  const { token } = makeToken(env.random, env.clock.now(), 'brain', 'operate');
  await writeWholeFile(env.disk, path, `${token}\n`);
  return token;
}
