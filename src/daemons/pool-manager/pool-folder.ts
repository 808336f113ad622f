/** The folder of a pool manager: held by one of them at a time, with what it remembers of itself. */
import type { Env } from '../../kit/env/env.ts';
import { isObject, RecordFile, readRecord } from '../../kit/record-file.ts';
import { readWholeFile, writeWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { makeToken } from '../../wire/tokens.ts';
import { layoutOf, type PoolLayout } from './layout.ts';

interface Remembered {
  readonly id: string;
  /** Where it listened the last time: workers that are starting call there. */
  readonly port?: number;
  /** No version of the state is as high as this. */
  readonly versions: number;
}

/** Written ahead of their use, many at a time, so that a restart never goes back. */
const VERSIONS = 1000;

export class PoolFolder {
  readonly layout: PoolLayout;
  /** Above all that an earlier manager has used. */
  readonly firstVersion: number;
  readonly #file: RecordFile<Remembered>;
  readonly #release: () => Promise<void>;

  private constructor(layout: PoolLayout, file: RecordFile<Remembered>, release: () => Promise<void>) {
    this.layout = layout;
    this.#file = file;
    this.firstVersion = file.value.versions - VERSIONS;
    this.#release = release;
  }

  static async open(env: Env, path: string): Promise<PoolFolder> {
    const layout = layoutOf(path);
    for (const folder of [layout.folder, layout.workers, layout.logs]) await env.disk.makeFolder(folder);
    const lock = await env.disk.lock(layout.lock);
    if (!lock) throw new OrchdError('STORE_LOCKED', 'another pool manager has this folder');
    try {
      const known: Partial<Remembered> = (await readRecord(env.disk, layout.registry, isObject)) ?? {};
      const first = Number.isSafeInteger(known.versions) ? (known.versions as number) : 1;
      const id = typeof known.id === 'string' && known.id !== '' ? known.id : env.random.hex(8);
      const file = new RecordFile(env, layout.registry, { ...known, id, versions: first + VERSIONS });
      await file.keep({});
      return new PoolFolder(layout, file, () => lock.release());
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** The identity of its memory. */
  get registry(): string {
    return this.#file.value.id;
  }

  get lastPort(): number | undefined {
    return this.#file.value.port;
  }

  async rememberPort(port: number): Promise<void> {
    if (port !== this.#file.value.port) await this.#file.keep({ port });
  }

  /** Sees to it that there are versions above this one. */
  reserve(version: number): void {
    const { versions } = this.#file.value;
    if (version + VERSIONS / 2 < versions) return;
    this.#file.keep({ versions: versions + VERSIONS }).catch(() => undefined);
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

/** The token in a file, which is made where it is not there. */
export async function keptToken(env: Env, path: string): Promise<string> {
  const known = await readToken(env, path);
  if (known !== undefined && known !== '') return known;
  const { token } = makeToken(env.random, env.clock.now(), 'brain', 'operate');
  await writeWholeFile(env.disk, path, `${token}\n`);
  return token;
}
