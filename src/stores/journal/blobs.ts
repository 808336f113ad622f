/**
 * The blob files, which hold large payloads and results outside the log. Bodies are appended to numbered files, never
 * changed, and deleted by whole files. Only the process that began a file appends to it, so a torn end of a file is
 * never written over and needs no recovery (docs/decisions/0003).
 */
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock, Disk, DiskFile, Env } from '../../kit/env/env.ts';
import type { BlobRef, Body } from '../../model/body.ts';
import { OrchdError } from '../../model/errors.ts';
import { isFull } from '../disk-failure.ts';
import { BlobProbe } from './blob-probe.ts';
import { blobName, blobNumber } from './layout.ts';

/** A file of this size or more gets no further batch. */
const NEXT_FILE_AT_BYTES = 64 * 2 ** 20;
/** A file is kept at least this long after its last write: a body is written before the record that references it. */
const UNREFERENCED_GRACE_MS = 600_000;
const MAX_PENDING_BYTES = 64 * 2 ** 20;

/** A reference to a body in a blob file. */
export interface FileRef extends BlobRef {
  readonly file: number;
  /** The oldest file with a blob that this one is composed of; undefined if that is no older than `file`. */
  readonly since?: number;
  readonly offset: number;
  readonly crc: number;
}

/** A composed blob that needs files further apart than this is written anew before it grows: all between are kept. */
const MAX_SPAN_FILES = 4;

/** The first and the last blob file that a body needs; undefined where the body is inside its record. */
export function filesOf(body: Body | undefined): FileSpan | undefined {
  if (typeof body !== 'object') return undefined;
  const { file, since = file } = body as FileRef;
  return { low: since, high: file };
}

/** The first and the last blob file that any of these bodies needs. */
export function spanOf(bodies: readonly Body[]): FileSpan | undefined {
  const spans = bodies.map(filesOf).filter((span) => span !== undefined);
  if (spans.length === 0) return undefined;
  return {
    low: Math.min(...spans.map(({ low }) => low)),
    high: Math.max(...spans.map(({ high }) => high)),
  };
}

export interface FileSpan {
  readonly low: number;
  readonly high: number;
}

export function isScattered(ref: BlobRef): boolean {
  const { file, since = file } = ref as FileRef;
  return file - since >= MAX_SPAN_FILES;
}

/** The oldest file among those that these blobs need. */
const oldestOf = (refs: readonly BlobRef[]): number =>
  Math.min(...(refs as readonly FileRef[]).map(({ file, since = file }) => since));

export interface BlobEvents {
  /** A body found no space on the disk, or as much as it needed is there again. */
  diskFull(isFull: boolean): void;
  /** No body can be written any more. */
  failed(error: Error): void;
}

interface PendingBlob {
  readonly bytes: Buffer;
  /** The oldest file that it needs; infinite for a blob that is not composed. */
  readonly since: number;
  readonly done: (ref: FileRef) => void;
  readonly fail: (error: Error) => void;
}

export class Blobs {
  readonly #disk: Disk;
  readonly #clock: Clock;
  readonly #folder: string;
  #pending: PendingBlob[] = [];
  #pendingBytes = 0;
  #working: Promise<void> | undefined;
  #file: DiskFile | undefined;
  #number = 0;
  #size = 0;
  #isOpen = false;
  /** When each file was last written, in monotonic time. */
  readonly #writtenAt = new Map<number, number>();
  #failure: Error | undefined;

  readonly #events: BlobEvents;
  readonly #probe: BlobProbe;

  constructor(
    { disk, clock, timers }: Pick<Env, 'disk' | 'clock' | 'timers'>,
    folder: string,
    events: BlobEvents,
  ) {
    this.#disk = disk;
    this.#clock = clock;
    this.#folder = folder;
    this.#events = events;
    this.#probe = new BlobProbe(timers, disk, folder, (isFull) => events.diskFull(isFull));
  }

  /**
   * `used` are the files that jobs refer to; returns those of them that are missing. The files are only listed, not read.
   * No new file gets the number of a missing one: it would be taken for that one.
   */
  async open(used: Iterable<number> = []): Promise<number[]> {
    await this.#probe.open();
    const present = new Set(await this.files());
    const missing = new Set<number>();
    for (const file of used) if (!present.has(file)) missing.add(file);
    for (const file of [...present, ...missing]) this.#number = Math.max(this.#number, file);
    this.#isOpen = true;
    return [...missing].sort((a, b) => a - b);
  }

  /** True where the file may hold a body whose record is not appended yet, so that no reference to it is known. */
  isInGracePeriod(file: number): boolean {
    const current = this.#file ? this.#number : this.#number + 1;
    const written = this.#writtenAt.get(file);
    return (
      file >= current || (written !== undefined && this.#clock.monotonic() - written < UNREFERENCED_GRACE_MS)
    );
  }

  put(text: string, needs: readonly BlobRef[] = []): Promise<FileRef> {
    if (this.#failure) {
      return Promise.reject(new OrchdError('STORE_FAILED', undefined, {}, { cause: this.#failure }));
    }
    // While this store is not open, another process may hold the folder and write to it.
    if (!this.#isOpen) return Promise.reject(new OrchdError('SHUTTING_DOWN'));
    const bytes = Buffer.from(text, 'utf8');
    if (this.#pendingBytes + bytes.length > MAX_PENDING_BYTES && this.#pending.length > 0) {
      return Promise.reject(new OrchdError('STORE_BUSY'));
    }
    this.#pendingBytes += bytes.length;
    return new Promise((done, fail) => {
      this.#pending.push({ bytes, since: oldestOf(needs), done, fail });
      this.#working ??= this.#work();
    });
  }

  async read(blob: BlobRef): Promise<Buffer> {
    const ref = blob as FileRef;
    const bytes = await this.#readBytes(ref);
    if (!bytes || bytes.length !== ref.bytes || crc32(bytes) !== ref.crc) {
      const position = `blobs/${blobName(ref.file)}:${ref.offset}`;
      const what = bytes ? 'does not match its checksum' : 'is missing';
      throw new OrchdError('STORE_CORRUPT', `${position} ${what}`, { position });
    }
    return bytes;
  }

  drop(file: number): Promise<void> {
    this.#writtenAt.delete(file);
    return this.#disk.remove(join(this.#folder, blobName(file)));
  }

  async files(): Promise<number[]> {
    const numbers = (await this.#disk.list(this.#folder)).map(blobNumber);
    return numbers.filter((number) => number !== undefined);
  }

  /** Waits for the writes under way: once the folder's lock is released another process may write to it. */
  async close(): Promise<void> {
    this.#isOpen = false;
    await this.#probe.close();
    await this.#working;
    await this.#file?.close();
    this.#file = undefined;
  }

  /** Opens the file for each read: a body is read once or twice in its life, and file descriptors are scarce. */
  async #readBytes(ref: FileRef): Promise<Buffer | undefined> {
    const path = join(this.#folder, blobName(ref.file));
    if (!(await this.#disk.stat(path))) return undefined;
    const file = await this.#disk.open(path, 'read');
    try {
      return await file.read(ref.offset, ref.bytes);
    } finally {
      await file.close();
    }
  }

  async #work(): Promise<void> {
    while (this.#pending.length > 0) {
      const batch = this.#pending;
      this.#pending = [];
      try {
        const refs = await this.#writeBatch(batch);
        this.#probe.written(largest(batch));
        batch.forEach((blob, at) => {
          blob.done(refs[at] as FileRef);
        });
      } catch (error) {
        const failure = this.#failureOf(error as Error);
        if (isFull(error)) this.#probe.failed(largest(batch));
        for (const blob of batch) blob.fail(failure);
      }
      for (const { bytes } of batch) this.#pendingBytes -= bytes.length;
    }
    this.#working = undefined;
  }

  /** A full disk fails only these bodies; any other failure stops the writer for good, since a sync is never retried. */
  #failureOf(error: Error): Error {
    if (isFull(error)) return new OrchdError('STORE_FULL', undefined, {}, { cause: error });
    this.#failure = error;
    this.#events.failed(error);
    return new OrchdError('STORE_FAILED', undefined, {}, { cause: error });
  }

  async #writeBatch(batch: readonly PendingBlob[]): Promise<FileRef[]> {
    if (!this.#file || this.#size >= NEXT_FILE_AT_BYTES) await this.#nextFile();
    const file = this.#file as DiskFile;
    const start = this.#size;
    let offset = start;
    const refs = batch.map(({ bytes, since }) => {
      const isOlder = since < this.#number;
      const place = { file: this.#number, ...(isOlder && { since }) };
      const ref = { ...place, offset, bytes: bytes.length, crc: crc32(bytes) };
      offset += bytes.length;
      return ref;
    });
    await file.write(
      start,
      batch.length === 1 ? (batch[0] as PendingBlob).bytes : Buffer.concat(batch.map((b) => b.bytes)),
    );
    await file.datasync();
    this.#size = offset;
    this.#writtenAt.set(this.#number, this.#clock.monotonic());
    return refs;
  }

  async #nextFile(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
    const file = await this.#disk.open(join(this.#folder, blobName(this.#number + 1)), 'create');
    await this.#disk.syncFolder(this.#folder);
    this.#number++;
    this.#file = file;
    this.#size = 0;
  }
}

const largest = (batch: readonly PendingBlob[]): number =>
  Math.max(...batch.map(({ bytes }) => bytes.length));
