/**
 * Large bodies, outside the log: appended to numbered files, never changed, dropped by whole files. A file is
 * continued only by the process that began it, so no tail ever has to be judged.
 */
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock, Disk, DiskFile, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { BlobRef, Body } from '../../model/records.ts';
import { isFull } from '../disk-failure.ts';
import { blobName, blobNumber } from './layout.ts';

const MAX_FILE_BYTES = 64 * 2 ** 20;
/** No submission takes this long from its body to its record. */
const YOUNG_MS = 600_000;
const MAX_PENDING_BYTES = 64 * 2 ** 20;

/** Where a body lies. */
export interface FileRef extends BlobRef {
  readonly file: number;
  readonly offset: number;
  readonly crc: number;
}

/** The blob file that a body is in; none where it travels inside its record. */
export const fileOf = (body: Body | undefined): number | undefined =>
  typeof body === 'object' ? (body as FileRef).file : undefined;

interface PendingBlob {
  readonly bytes: Buffer;
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
  readonly #writtenAt = new Map<number, number>();
  #failure: Error | undefined;

  readonly #onFailed: (error: Error) => void;

  constructor(
    { disk, clock }: Pick<Env, 'disk' | 'clock'>,
    folder: string,
    onFailed: (error: Error) => void,
  ) {
    this.#disk = disk;
    this.#clock = clock;
    this.#folder = folder;
    this.#onFailed = onFailed;
  }

  async open(): Promise<void> {
    for (const name of await this.#disk.list(this.#folder)) {
      this.#number = Math.max(this.#number, blobNumber(name) ?? 0);
    }
    this.#isOpen = true;
  }

  /** Whether a body of the file may still be on its way into a record: then nobody names it yet. */
  isYoung(file: number): boolean {
    const current = this.#file ? this.#number : this.#number + 1;
    const written = this.#writtenAt.get(file);
    return file >= current || (written !== undefined && this.#clock.monotonic() - written < YOUNG_MS);
  }

  put(text: string): Promise<FileRef> {
    if (this.#failure) {
      return Promise.reject(new OrchdError('STORE_FAILED', undefined, {}, { cause: this.#failure }));
    }
    // Outside of that the folder is not held: another one may write to it.
    if (!this.#isOpen) return Promise.reject(new OrchdError('SHUTTING_DOWN'));
    const bytes = Buffer.from(text, 'utf8');
    if (this.#pendingBytes + bytes.length > MAX_PENDING_BYTES && this.#pending.length > 0) {
      return Promise.reject(new OrchdError('STORE_BUSY'));
    }
    this.#pendingBytes += bytes.length;
    return new Promise((done, fail) => {
      this.#pending.push({ bytes, done, fail });
      this.#working ??= this.#work();
    });
  }

  async read(blob: BlobRef): Promise<string> {
    const ref = blob as FileRef;
    const bytes = await this.#readBytes(ref);
    if (!bytes || bytes.length !== ref.bytes || crc32(bytes) !== ref.crc) {
      const position = `blobs/${blobName(ref.file)}:${ref.offset}`;
      const what = bytes ? 'does not match its checksum' : 'is missing';
      throw new OrchdError('STORE_CORRUPT', `${position} ${what}`, { position });
    }
    return bytes.toString('utf8');
  }

  drop(file: number): Promise<void> {
    this.#writtenAt.delete(file);
    return this.#disk.remove(join(this.#folder, blobName(file)));
  }

  async files(): Promise<number[]> {
    const numbers = (await this.#disk.list(this.#folder)).map(blobNumber);
    return numbers.filter((number) => number !== undefined);
  }

  /** What is being written is written first: once the folder is let go another one may write to it. */
  async close(): Promise<void> {
    this.#isOpen = false;
    await this.#working;
    await this.#file?.close();
    this.#file = undefined;
  }

  /** Opened for each read: bodies are read once or twice in their life, and open files are scarce. */
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
        batch.forEach((blob, at) => {
          blob.done(refs[at] as FileRef);
        });
      } catch (error) {
        const known = this.#judge(error as Error);
        for (const blob of batch) blob.fail(known);
      }
      for (const { bytes } of batch) this.#pendingBytes -= bytes.length;
    }
    this.#working = undefined;
  }

  /** A full disk refuses these bodies only; any other failure ends the writer, since a sync is never retried. */
  #judge(error: Error): Error {
    if (isFull(error)) return new OrchdError('STORE_FULL', undefined, {}, { cause: error });
    this.#failure = error;
    this.#onFailed(error);
    return new OrchdError('STORE_FAILED', undefined, {}, { cause: error });
  }

  async #writeBatch(batch: readonly PendingBlob[]): Promise<FileRef[]> {
    if (!this.#file || this.#size >= MAX_FILE_BYTES) await this.#nextFile();
    const file = this.#file as DiskFile;
    const start = this.#size;
    let offset = start;
    const refs = batch.map(({ bytes }) => {
      const ref = { file: this.#number, offset, bytes: bytes.length, crc: crc32(bytes) };
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
