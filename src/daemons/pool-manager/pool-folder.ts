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
}

export class PoolFolder {
  readonly layout: PoolLayout;
  readonly #env: Env;
  readonly #release: () => Promise<void>;
  #remembered: Remembered;

  private constructor(env: Env, layout: PoolLayout, remembered: Remembered, release: () => Promise<void>) {
    this.layout = layout;
    this.#env = env;
    this.#remembered = remembered;
    this.#release = release;
  }

  static async open(env: Env, path: string): Promise<PoolFolder> {
    const layout = layoutOf(path);
    for (const folder of [layout.folder, layout.workers, layout.logs]) await env.disk.makeFolder(folder);
    const lock = await env.disk.lock(layout.lock);
    if (!lock) throw new OrchdError('STORE_LOCKED', 'another pool manager has this folder');
    try {
      let remembered = await readRecord<Remembered>(env.disk, layout.registry);
      if (typeof remembered?.id !== 'string' || remembered.id === '') {
        remembered = { id: env.random.hex(8) };
        await writeRecord(env, layout.registry, remembered, layout.folder);
      }
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
    if (port === this.#remembered.port) return;
    this.#remembered = { ...this.#remembered, port };
    await writeRecord(this.#env, this.layout.registry, this.#remembered, this.layout.folder);
  }

  close(): Promise<void> {
    return this.#release();
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
