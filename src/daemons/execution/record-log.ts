/**
 * An append-only file of records with group commit: what is appended during a flush goes with the next one.
 *
 * R1  `append` settles when the record is on stable storage; only then is it applied to the state.
 * R2  A record that does not fit on a full disk is rejected with STORE_FULL, and the file is cut back to its last good
 *     position before anything else is written.
 * R3  After any other failure of the disk nothing is written any more, and `failed` settles: what the file holds is known
 *     only to a process that reads it again.
 * R4  A record that nobody waits for makes no flush of its own, so that it never keeps another one waiting: it goes with the
 *     next flush, or when `flushLazy` is called.
 * R5  Once the file has grown to a multiple of what lived at the last compaction, or somebody asks for it, it is replaced
 *     by a new one.
 */
import { dirname } from 'node:path';
import { type Disk, type DiskFile, diskErrorCode } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { lineOf, sectorAfter } from './record-lines.ts';

export interface RecordLogOptions<R extends object> {
  readonly disk: Disk;
  readonly path: string;
  /** The records that make the present state; they replace the file at a compaction. */
  readonly live: () => Iterable<R>;
  readonly apply: (record: R) => void;
  /** No compaction below this size. */
  readonly minCompactBytes?: number;
}

interface Pending<R> {
  readonly record: R;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const MIN_COMPACT_BYTES = 8 * 2 ** 20;
const GROWTH = 3;
const WRITE_BYTES = 4 * 2 ** 20;
/** A flush is one text: it must not become too long for one. */
const MAX_FLUSH_CHARS = 64 * 2 ** 20;
const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT']);

const isFull = (thrown: unknown): boolean => FULL.has(diskErrorCode(thrown));

export class RecordLog<R extends object> {
  readonly #options: RecordLogOptions<R>;
  readonly #failed = Promise.withResolvers<OrchdError>();
  #failure: OrchdError | undefined;
  #file: DiskFile;
  /** Where the last durable record ends. */
  #end: number;
  /** The number of records in the file, all of them durable. */
  #count: number;
  /** The size after the last compaction, or after one that failed. */
  #compactedBytes: number;
  /** The file may hold a part of a failed write behind `#end`. */
  #hasRest = false;
  readonly #waiting: Pending<R>[] = [];
  #flushing: Promise<void> | undefined;
  #isClosed = false;
  /** Set while somebody waits for a compaction; resolves to whether the disk had room for it. */
  #wantedCompaction: PromiseWithResolvers<boolean> | undefined;

  private constructor(options: RecordLogOptions<R>, written: WrittenFile) {
    this.#options = options;
    this.#file = written.file;
    this.#end = written.bytes;
    this.#count = written.count;
    this.#compactedBytes = written.bytes;
  }

  /** Replaces the file at the path, if there is one, by one with the live records. */
  static async create<R extends object>(options: RecordLogOptions<R>): Promise<RecordLog<R>> {
    const written = await writeLive(options);
    await options.disk.syncFolder(dirname(options.path));
    return new RecordLog(options, written);
  }

  /** Settles when the disk has failed: the process must end, and another one read the file. */
  get failed(): Promise<OrchdError> {
    return this.#failed.promise;
  }

  get bytes(): number {
    return this.#end;
  }

  append(record: R): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#isClosed) return Promise.reject(new OrchdError('STORE_FAILED', 'the file is closed'));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ record, resolve, reject });
      this.#flushing ??= this.#flushAll();
    });
  }

  /** Appends a record with the next flush. It is lost if the process dies before that, or if it cannot be written. */
  appendLazily(record: R): void {
    if (this.#failure || this.#isClosed) return;
    this.#waiting.push({ record, resolve: () => undefined, reject: () => undefined });
  }

  /** Writes what was appended lazily. */
  flushLazy(): void {
    if (this.#waiting.length > 0) this.#flushing ??= this.#flushAll();
  }

  /**
   * Replaces the file by one with the live records alone: what is no longer kept is then not on the disk either. Resolves
   * to false where the disk has no room for the new file, or nothing can be written any more.
   */
  compact(): Promise<boolean> {
    if (this.#failure || this.#isClosed) return Promise.resolve(false);
    this.#wantedCompaction ??= Promise.withResolvers();
    const { promise } = this.#wantedCompaction;
    this.#flushing ??= this.#flushAll();
    return promise;
  }

  /** Writes what has been appended, and closes the file. */
  async close(): Promise<void> {
    this.flushLazy();
    this.#isClosed = true;
    await this.#flushing;
    await this.#file.close();
  }

  async #flushAll(): Promise<void> {
    while (this.#waiting.length > 0 || this.#wantedCompaction) {
      const { batch, lines } = this.#takeBatch();
      try {
        if (batch.length > 0) await this.#flush(batch, lines);
        await this.#compactWhereNeeded();
      } catch (error) {
        this.#fail(error, batch);
      }
    }
    this.#flushing = undefined;
  }

  /** What goes with the next flush: all that waits, up to MAX_FLUSH_CHARS. */
  #takeBatch(): { readonly batch: readonly Pending<R>[]; readonly lines: readonly string[] } {
    const lines: string[] = [];
    let chars = 0;
    for (const { record } of this.#waiting) {
      if (chars > MAX_FLUSH_CHARS) break;
      const line = lineOf(this.#count + lines.length + 1, this.#count, record);
      lines.push(line);
      chars += line.length;
    }
    return { batch: this.#waiting.splice(0, lines.length), lines };
  }

  async #flush(batch: readonly Pending<R>[], lines: readonly string[]): Promise<void> {
    const bytes = Buffer.from(lines.join(''));
    const at = sectorAfter(this.#end);
    try {
      await this.#cutBack();
      this.#hasRest = true;
      await this.#file.write(at, bytes);
    } catch (error) {
      if (!isFull(error)) throw error;
      await this.#cutBack().catch((thrown: unknown) => {
        if (!isFull(thrown)) throw thrown;
      });
      for (const { reject } of batch) reject(new OrchdError('STORE_FULL'));
      return;
    }
    await this.#file.datasync();
    this.#hasRest = false;
    this.#end = at + bytes.length;
    this.#count += batch.length;
    for (const { record } of batch) this.#options.apply(record);
    for (const { resolve } of batch) resolve();
  }

  /** The sync makes sure that no part of a rejected flush comes back after a power cut. */
  async #cutBack(): Promise<void> {
    if (!this.#hasRest) return;
    await this.#file.truncate(this.#end);
    await this.#file.datasync();
    this.#hasRest = false;
  }

  async #compactWhereNeeded(): Promise<void> {
    const { minCompactBytes = MIN_COMPACT_BYTES, disk, path } = this.#options;
    const isLarge = this.#end >= Math.max(minCompactBytes, GROWTH * this.#compactedBytes);
    const wanted = this.#wantedCompaction;
    if (!isLarge && !wanted) return;
    this.#wantedCompaction = undefined;
    let written: WrittenFile;
    try {
      written = await writeLive(this.#options);
    } catch (error) {
      if (!isFull(error)) throw error;
      this.#compactedBytes = this.#end;
      wanted?.resolve(false);
      return;
    }
    const old = this.#file;
    this.#file = written.file;
    this.#end = written.bytes;
    this.#count = written.count;
    this.#compactedBytes = written.bytes;
    this.#hasRest = false;
    await disk.syncFolder(dirname(path));
    await old.close().catch(() => undefined);
    wanted?.resolve(true);
  }

  #fail(error: unknown, batch: readonly Pending<R>[]): void {
    this.#failure = new OrchdError('STORE_FAILED', undefined, {}, { cause: error });
    this.#wantedCompaction?.resolve(false);
    this.#wantedCompaction = undefined;
    this.#failed.resolve(this.#failure);
    for (const { reject } of [...batch, ...this.#waiting.splice(0)]) reject(this.#failure);
  }
}

interface WrittenFile {
  readonly file: DiskFile;
  readonly bytes: number;
  readonly count: number;
}

/** Writes the live records to a temporary file and renames it; the file stays open. The folder is not synced yet. */
async function writeLive<R extends object>(options: RecordLogOptions<R>): Promise<WrittenFile> {
  const { disk, path, live } = options;
  const temporary = `${path}.tmp`;
  const file = await disk.open(temporary, 'create');
  try {
    let bytes = 0;
    let count = 0;
    let lines: string[] = [];
    let chars = 0;
    const write = async (): Promise<void> => {
      const data = Buffer.from(lines.join(''));
      await file.write(bytes, data);
      bytes += data.length;
      lines = [];
      chars = 0;
    };
    for (const record of live()) {
      // Nothing of this file counts before its rename, so every record is durable for the later ones.
      const line = lineOf(count + 1, count, record);
      count++;
      lines.push(line);
      chars += line.length;
      if (chars >= WRITE_BYTES) await write();
    }
    await write();
    await file.datasync();
    await disk.rename(temporary, path);
    return { file, bytes, count };
  } catch (error) {
    await file.close().catch(() => undefined);
    await disk.remove(temporary).catch(() => undefined);
    throw error;
  }
}
