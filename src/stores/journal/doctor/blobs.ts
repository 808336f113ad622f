/** Checks that the bodies which jobs reference exist and match their checksums. */
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, diskErrorCode } from '../../../kit/env/env.ts';
import type { AskRecord, Body, JobRecord } from '../../../model/records.ts';
import type { FileRef } from '../blobs.ts';
import { blobName, blobNumber } from '../layout.ts';
import type { Report, Verdict } from './report.ts';

export class BlobCheck {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #report: Report;
  readonly #missing = new Set<number>();
  readonly #used = new Set<number>();
  #file: DiskFile | undefined;
  #number = 0;
  checked = 0;

  constructor(disk: Disk, folder: string, report: Report) {
    this.#disk = disk;
    this.#folder = folder;
    this.#report = report;
  }

  /** `ifMissing` is the verdict for a missing body; one that does not match its checksum is always bad. */
  async job(uid: string, ask: AskRecord, job: JobRecord, ifMissing: Exclude<Verdict, 'ok'>): Promise<void> {
    await this.#body(`the payload of "${uid}"`, ask.payload, ifMissing);
    if (job.result !== undefined) await this.#body(`the result of "${uid}"`, job.result, ifMissing);
  }

  /** Files that no job passed to job() references. */
  async unused(): Promise<string[]> {
    const names = await this.#disk.list(this.#folder);
    return names.filter((name) => !this.#used.has(blobNumber(name) ?? Number.NaN));
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  async #body(what: string, body: Body, ifMissing: Exclude<Verdict, 'ok'>): Promise<void> {
    if (typeof body === 'string') return;
    const ref = body as FileRef;
    const position = `blobs/${blobName(ref.file)}:${ref.offset}`;
    this.#used.add(ref.file);
    const bytes = await this.#read(ref);
    if (!bytes || bytes.length < ref.bytes) {
      this.#report[ifMissing]('blobs', `${what} is missing`, position);
    } else if (crc32(bytes) !== ref.crc) {
      this.#report.bad('blobs', `${what} does not match its checksum`, position);
    } else this.checked++;
  }

  /** Keeps one file open: jobs reference blobs nearly in the order in which they were written. */
  async #read(ref: FileRef): Promise<Buffer | undefined> {
    if (this.#missing.has(ref.file)) return undefined;
    if (!this.#file || this.#number !== ref.file) {
      await this.close();
      try {
        this.#file = await this.#disk.open(join(this.#folder, blobName(ref.file)), 'read');
        this.#number = ref.file;
      } catch (error) {
        if (diskErrorCode(error) !== 'ENOENT') throw error;
        this.#missing.add(ref.file);
        return undefined;
      }
    }
    return this.#file.read(ref.offset, ref.bytes);
  }
}
