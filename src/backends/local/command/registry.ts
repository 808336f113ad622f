/** What a command backend remembers of itself: its identity, since when it remembers, and who commands it. */

import { join } from 'node:path';
import { type Disk, diskErrorCode, type Env } from '../../../kit/env/env.ts';
import type { Commander } from '../../../model/worker-wire.ts';
import { escaped, type Layout } from './layout.ts';

interface RegistryRecord {
  readonly id: string;
  readonly since: number;
}

const MAX_RECORD_BYTES = 1024 * 1024;

/** What a JSON file holds; undefined where there is none, or none that can be read. */
export async function readRecord<T extends object>(disk: Disk, path: string): Promise<T | undefined> {
  let bytes: Buffer;
  try {
    const file = await disk.open(path, 'read');
    try {
      bytes = await file.read(0, Math.min(await file.size(), MAX_RECORD_BYTES));
    } finally {
      await file.close();
    }
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(diskErrorCode(error) ?? '')) return undefined;
    throw error;
  }
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return typeof value === 'object' && value !== null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}

/** The file appears whole and is on stable storage, and so is its name when `folder` is given. */
export async function writeRecord(
  { disk, random }: Pick<Env, 'disk' | 'random'>,
  path: string,
  value: object,
  folder?: string,
): Promise<void> {
  // Two who write at once both write the whole; the later one stays.
  const temporary = `${path}.${random.hex(4)}.tmp`;
  const file = await disk.open(temporary, 'create');
  try {
    await file.write(0, Buffer.from(`${JSON.stringify(value)}\n`));
    await file.datasync();
  } finally {
    await file.close();
  }
  await disk.rename(temporary, path);
  if (folder !== undefined) await disk.syncFolder(folder);
}

export class Registry {
  readonly #env: Env;
  readonly #layout: Layout;
  #record: RegistryRecord = { id: '', since: Number.POSITIVE_INFINITY };

  constructor(env: Env, layout: Layout) {
    this.#env = env;
    this.#layout = layout;
  }

  get id(): string {
    return this.#record.id;
  }

  get since(): number {
    return this.#record.since;
  }

  async open(): Promise<void> {
    const { clock, random } = this.#env;
    if (await this.#load()) return;
    await this.#put({ id: random.hex(8), since: clock.now() });
    // Another one may have done the same at once.
    await this.#load();
  }

  async #load(): Promise<boolean> {
    const known = await readRecord<RegistryRecord>(this.#env.disk, this.#layout.registry);
    if (typeof known?.id !== 'string' || typeof known.since !== 'number') return false;
    this.#record = known;
    return true;
  }

  /** Something that nobody had acknowledged is about to be forgotten. */
  async forgetBefore(at: number): Promise<void> {
    if (at > this.#record.since) await this.#put({ id: this.#record.id, since: at });
  }

  /**
   * Whether somebody newer has been heard. Every epoch is a file of its own: two brains that write at once
   * cannot take each other's back.
   */
  async isFenced({ owner, epoch }: Commander): Promise<boolean> {
    const { disk } = this.#env;
    const { epochs } = this.#layout;
    const prefix = `${escaped(owner)}+`;
    const heard = (await disk.list(epochs)).filter((name) => name.startsWith(prefix));
    const highest = Math.max(0, ...heard.map((name) => Number(name.slice(prefix.length)) || 0));
    if (epoch < highest) return true;
    if (epoch === highest) return false;
    const file = await disk.open(join(epochs, `${prefix}${epoch}`), 'create');
    await file.close();
    await disk.syncFolder(epochs);
    for (const name of heard) await disk.remove(join(epochs, name));
    return false;
  }

  async #put(record: RegistryRecord): Promise<void> {
    await writeRecord(this.#env, this.#layout.registry, record, this.#layout.folder);
    this.#record = record;
  }
}
