/** The data folder of a pool manager: locked by one manager at a time, with its registry id, port and token. */
import type { Env } from '../../kit/env/env.ts';
import { claimCopy, claimFolder, refuseHardLinks, setAside } from '../../kit/folder-identity.ts';
import { isObject, RecordFile, readRecord } from '../../kit/record-file.ts';
import { readWholeFile, writeWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import { makeToken } from '../../wire/tokens.ts';
import { isPoolFile, layoutOf, type PoolLayout } from './layout.ts';

/** `registry.json` */
interface PoolRegistryRecord {
  /** The registry id: made with the file, and so lost together with the records of the workers. */
  readonly id: string;
  /** The last port: a manager that restarts listens there again, because workers that are starting report to it. */
  readonly port?: number;
  /** Every state version below this one is reserved: it may have been used. */
  readonly versions: number;
}

/**
 * Every change of the pool's state gets the next version number, and the brain waits for a version that differs from the
 * last one that it has seen. A restarted manager must not use a number twice: the brain would miss a change. Writing each
 * number to disk would be slow, so they are reserved in blocks, and a restart begins above the last reserved block.
 */
const VERSION_BLOCK = 1000;

export class PoolFolder {
  readonly layout: PoolLayout;
  /** The first state version: above all that an earlier manager of this folder has used. */
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
    // `open` has just reserved a block: this is where it begins.
    this.firstVersion = file.value.versions - VERSION_BLOCK;
    this.#release = release;
  }

  /** `isCopy`: the workers of a copied folder belong to the manager of the original, and are set aside. */
  static async open(env: Env, path: string, isCopy: boolean): Promise<PoolFolder> {
    const layout = layoutOf(path);
    await refuseHardLinks(env.disk, layout.folder, isCopy ? [layout.folder] : []);
    await env.disk.closeToOthers?.(path, isPoolFile);
    for (const folder of [layout.folder, layout.workers, layout.logs]) await env.disk.makeFolder(folder);
    const lock = await env.disk.lock(layout.lock);
    if (!lock) throw new OrchdError('STORE_LOCKED', 'another pool manager has this folder');
    try {
      if (isCopy) {
        // Without the registry the manager says that it may not know all living workers.
        await setAside(env, layout.folder, [layout.registry, layout.epochs, layout.workers]);
        await env.disk.makeFolder(layout.workers);
        await claimCopy(env, layout.folder);
      } else await claimFolder(env, layout.folder);
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

  /** The id of this folder's records. A new id tells the brain that the manager may not know all living workers. */
  get registryId(): string {
    return this.#file.value.id;
  }

  get lastPort(): number | undefined {
    return this.#file.value.port;
  }

  async rememberPort(port: number): Promise<void> {
    if (port !== this.#file.value.port) await this.#file.keep({ port });
  }

  /**
   * Reserves the next block when half of the current one is used. A failed write may be ignored: half a block is
   * still reserved, and the next write of the file includes this reservation too. A version could repeat only if the manager
   * used up that half and was restarted before a write succeeded; the brain could then overlook that one change until the next.
   */
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
