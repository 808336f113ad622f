/**
 * Small JSON files that are written whole and checked when they are read: what a process remembers of itself, and of
 * what it has started.
 */
import { dirname } from 'node:path';
import type { Disk, Env } from './env/env.ts';
import { readWholeFile, type WriteOptions, writeWholeFile } from './whole-file.ts';

/** A longer file is none that was written here. */
const MAX_RECORD_BYTES = 1024 * 1024;

export const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** What the file holds; undefined where there is none, or none that passes the check. */
export async function readRecord<T extends object>(
  disk: Disk,
  path: string,
  isRecord: (value: unknown) => value is T,
): Promise<T | undefined> {
  const bytes = await readWholeFile(disk, path, MAX_RECORD_BYTES);
  if (!bytes) return undefined;
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Two who write at once both write the whole; the later one stays. */
export async function writeRecord(
  { disk, random }: Pick<Env, 'disk' | 'random'>,
  path: string,
  value: object,
  name: WriteOptions['name'] = 'durable',
): Promise<void> {
  const temporary = `${path}.${random.hex(4)}.tmp`;
  await writeWholeFile(disk, path, `${JSON.stringify(value)}\n`, { temporary, name });
}

/** A record that one process changes again and again: the changes are written in their order. */
export class RecordFile<T extends object> {
  readonly #env: Pick<Env, 'disk' | 'random'>;
  readonly #path: string;
  #value: T;
  #written: Promise<void> = Promise.resolve();

  /** Nothing is written until something is saved or kept. */
  constructor(env: Pick<Env, 'disk' | 'random'>, path: string, value: T) {
    this.#env = env;
    this.#path = path;
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  /** Counts at once, and is taken back where it cannot be written; settles when it is on stable storage. */
  save(changes: Partial<T>): Promise<void> {
    const before: Partial<T> = this.#value;
    return this.keep(changes).catch((error: unknown) => {
      const keys = Object.keys(changes) as (keyof T)[];
      // A field that has changed again since then is not taken back.
      const own = keys.filter((key) => this.#value[key] === changes[key]);
      this.#value = { ...this.#value, ...Object.fromEntries(own.map((key) => [key, before[key]])) };
      throw error;
    });
  }

  /** Counts whether or not it can be written: what it says has happened already. */
  keep(changes: Partial<T>): Promise<void> {
    this.#value = { ...this.#value, ...changes };
    const write = this.#written
      .catch(() => undefined)
      .then(() => writeRecord(this.#env, this.#path, this.#value));
    write.catch(() => undefined);
    this.#written = write;
    return write;
  }

  /** Settles when what counts now is on stable storage. */
  settled(): Promise<void> {
    return this.#written;
  }

  async remove(): Promise<void> {
    await this.#written.catch(() => undefined);
    await this.#env.disk.remove(this.#path);
    await this.#env.disk.syncFolder(dirname(this.#path));
  }
}
