/**
 * Small JSON files, written whole and validated when read. Daemons keep in them what they must remember over a restart:
 * their own ids and the processes they have started.
 */
import { dirname } from 'node:path';
import { type Disk, diskErrorCode, type Env } from './env/env.ts';
import { readWholeFile, type WriteOptions, writeWholeFile } from './whole-file.ts';

/** No record is this long: a longer file is read only in part, and so fails to parse. */
const MAX_RECORD_BYTES = 1024 * 1024;

export const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** The record in the file; undefined when there is no file, or its content is not a valid record. */
export async function readRecord<T extends object>(
  disk: Disk,
  path: string,
  isRecord: (value: unknown) => value is T,
): Promise<T | undefined> {
  return recordIn(await readWholeFile(disk, path, MAX_RECORD_BYTES), isRecord);
}

/** What an open for plain files fails with at a link, a pipe, a device and a folder. */
const NOT_PLAIN: ReadonlySet<string | undefined> = new Set(['ELOOP', 'ENXIO', 'EINVAL', 'EISDIR']);

/** Whether the open of a plain file has failed because it is none. */
export const isNotPlain = (error: unknown): boolean => NOT_PLAIN.has(diskErrorCode(error));

/** As readRecord, where a foreign program may have put anything: a link is not followed, and a pipe is not waited for. */
export async function readPlainFileRecord<T extends object>(
  disk: Disk,
  path: string,
  isRecord: (value: unknown) => value is T,
): Promise<T | undefined> {
  try {
    return recordIn(await readWholeFile(disk, path, MAX_RECORD_BYTES, 'plain'), isRecord);
  } catch (error) {
    if (isNotPlain(error)) return undefined;
    throw error;
  }
}

function recordIn<T extends object>(
  bytes: Buffer | undefined,
  isRecord: (value: unknown) => value is T,
): T | undefined {
  if (!bytes) return undefined;
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Each write has its own temporary file, so of two concurrent writers the later one wins as a whole. */
export async function writeRecord(
  { disk, random }: Pick<Env, 'disk' | 'random'>,
  path: string,
  value: object,
  name: WriteOptions['name'] = 'durable',
): Promise<void> {
  const temporary = `${path}.${random.hex(4)}.tmp`;
  await writeWholeFile(disk, path, `${JSON.stringify(value)}\n`, { temporary, name });
}

/** A record that one process keeps in memory and changes; its changes are written in order. */
export class RecordFile<T extends object> {
  readonly #env: Pick<Env, 'disk' | 'random'>;
  readonly #path: string;
  #value: T;
  #written: Promise<void> = Promise.resolve();

  /** Writes nothing: the first `save` or `keep` creates the file. */
  constructor(env: Pick<Env, 'disk' | 'random'>, path: string, value: T) {
    this.#env = env;
    this.#path = path;
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  /** Changes `value` at once; undoes the change if it cannot be written. Settles when it is on stable storage. */
  save(changes: Partial<T>): Promise<void> {
    const before: Partial<T> = this.#value;
    return this.keep(changes).catch((error: unknown) => {
      const keys = Object.keys(changes) as (keyof T)[];
      // A field that has been changed again meanwhile keeps its newer value.
      const own = keys.filter((key) => this.#value[key] === changes[key]);
      this.#value = { ...this.#value, ...Object.fromEntries(own.map((key) => [key, before[key]])) };
      throw error;
    });
  }

  /** Like `save`, but `value` stays changed if the write fails: for facts that have already happened. */
  keep(changes: Partial<T>): Promise<void> {
    this.#value = { ...this.#value, ...changes };
    const write = this.#written
      .catch(() => undefined)
      .then(() => writeRecord(this.#env, this.#path, this.#value));
    write.catch(() => undefined);
    this.#written = write;
    return write;
  }

  /** Settles with the last write: when `value` is on stable storage. */
  settled(): Promise<void> {
    return this.#written;
  }

  async remove(): Promise<void> {
    await this.#written.catch(() => undefined);
    await this.#env.disk.remove(this.#path);
    await this.#env.disk.syncFolder(dirname(this.#path));
  }
}
