/** The folder of a pool manager: held by one of them at a time, with what it remembers of itself. */
import { readRecord, writeRecord } from '../../backends/local/command/registry.ts';
import type { Env } from '../../kit/env/env.ts';
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
  readonly #env: Env;
  readonly #release: () => Promise<void>;
  #remembered: Remembered;
  #written: Promise<void> = Promise.resolve();

  private constructor(env: Env, layout: PoolLayout, remembered: Remembered, release: () => Promise<void>) {
    this.layout = layout;
    this.#env = env;
    this.#remembered = remembered;
    this.firstVersion = remembered.versions - VERSIONS;
    this.#release = release;
  }

  static async open(env: Env, path: string): Promise<PoolFolder> {
    const layout = layoutOf(path);
    for (const folder of [layout.folder, layout.workers, layout.logs]) await env.disk.makeFolder(folder);
    const lock = await env.disk.lock(layout.lock);
    if (!lock) throw new OrchdError('STORE_LOCKED', 'another pool manager has this folder');
    try {
      const known = await readRecord<Partial<Remembered>>(env.disk, layout.registry);
      const first = Number.isSafeInteger(known?.versions) ? (known?.versions as number) : 1;
      const id = typeof known?.id === 'string' && known.id !== '' ? known.id : env.random.hex(8);
      const remembered = { ...known, id, versions: first + VERSIONS };
      await writeRecord(env, layout.registry, remembered, layout.folder);
      return new PoolFolder(env, layout, remembered, () => lock.release());
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** The identity of its memory. */
  get registry(): string {
    return this.#remembered.id;
  }

  get lastPort(): number | undefined {
    return this.#remembered.port;
  }

  async rememberPort(port: number): Promise<void> {
    if (port !== this.#remembered.port) await this.#remember({ port });
  }

  /** Sees to it that there are versions above this one. */
  reserve(version: number): void {
    const { versions } = this.#remembered;
    if (version + VERSIONS / 2 < versions) return;
    this.#remember({ versions: versions + VERSIONS }).catch(() => undefined);
  }

  #remember(changes: Partial<Remembered>): Promise<void> {
    this.#remembered = { ...this.#remembered, ...changes };
    const write = this.#written
      .catch(() => undefined)
      .then(() => writeRecord(this.#env, this.layout.registry, this.#remembered, this.layout.folder));
    write.catch(() => undefined);
    this.#written = write;
    return write;
  }

  async close(): Promise<void> {
    await this.#written.catch(() => undefined);
    await this.#release();
  }
}

const MAX_TOKEN_BYTES = 1024;

/** The token in a file; undefined where there is no such file. */
export async function readToken(env: Env, path: string): Promise<string | undefined> {
  if (!(await env.disk.stat(path))) return undefined;
  const file = await env.disk.open(path, 'read');
  try {
    return (await file.read(0, MAX_TOKEN_BYTES)).toString('utf8').trim();
  } finally {
    await file.close();
  }
}

/** The token in a file, which is made where it is not there. */
export async function keptToken(env: Env, path: string): Promise<string> {
  const known = await readToken(env, path);
  if (known !== undefined && known !== '') return known;
  const { token } = makeToken(env.random, env.clock.now(), 'brain', 'operate');
  const file = await env.disk.open(path, 'create');
  try {
    await file.write(0, Buffer.from(`${token}\n`));
    await file.datasync();
  } finally {
    await file.close();
  }
  return token;
}
