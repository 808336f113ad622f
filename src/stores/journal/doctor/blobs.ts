/** Checks that the bodies which jobs reference exist and match their checksums. */

import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, diskErrorCode } from '../../../kit/env/env.ts';
import type { Body } from '../../../model/body.ts';
import { compositionIn, refsIn } from '../../../model/composed.ts';
import { keptBody } from '../../../model/kept-body.ts';
import { namedBodies } from '../../../model/named-bodies.ts';
import type { AskRecord, JobRecord } from '../../../model/records.ts';
import type { SessionRecord } from '../../../model/session-record.ts';
import type { FileRef } from '../blobs.ts';
import { blobName, blobNumber } from '../layout.ts';
import type { Report, Verdict } from './report.ts';

export class BlobCheck {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #report: Report;
  readonly #missing = new Set<number>();
  readonly #used = new Set<number>();
  /** The composed bodies that were checked. */
  readonly #intact = new Set<string>();
  #file: DiskFile | undefined;
  /** The number of the blob file that is open as #file. */
  #fileNumber = 0;
  /** Number of bodies that match their checksums. */
  checked = 0;
  /** Number of bodies that were reported as bad. */
  lost = 0;

  constructor(disk: Disk, folder: string, report: Report) {
    this.#disk = disk;
    this.#folder = folder;
    this.#report = report;
  }

  /** `ifMissing` is the verdict for a missing body; one that does not match its checksum is always bad. */
  async checkJob(
    uid: string,
    ask: AskRecord,
    job: JobRecord,
    ifMissing: Exclude<Verdict, 'ok'>,
  ): Promise<void> {
    await this.#checkBody(`the payload of "${uid}"`, ask.payload, ifMissing);
    const kept = keptBody(job);
    const name = job.result === undefined ? 'what is kept' : 'the result';
    if (kept !== undefined) await this.#checkBody(`${name} of "${uid}"`, kept, ifMissing);
  }

  async checkSession(record: SessionRecord): Promise<void> {
    for (const body of namedBodies('session', record))
      await this.#checkBody(`what session "${record.id}" keeps`, body, 'bad');
  }

  /** Names of the files that no job and no session that was checked refers to. */
  async unusedFiles(): Promise<string[]> {
    const names = await this.#disk.list(this.#folder);
    // A name that is no blob's has no number; NaN is never in #used, so that the file counts as unused.
    return names.filter((name) => !this.#used.has(blobNumber(name) ?? Number.NaN));
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  async #checkBody(what: string, body: Body, ifMissing: Exclude<Verdict, 'ok'>): Promise<void> {
    if (typeof body === 'string') return;
    const ref = body as FileRef;
    const position = `blobs/${blobName(ref.file)}:${ref.offset}`;
    this.#used.add(ref.file);
    const name = `${ref.file}:${ref.offset}`;
    if (this.#intact.has(name)) return;
    const bytes = await this.#read(ref);
    // A read beyond the end of the file returns fewer bytes: the file was truncated, and the body is not in it.
    if (!bytes || bytes.length < ref.bytes) {
      if (ifMissing === 'bad') this.lost++;
      this.#report[ifMissing]('blobs', `${what} is missing`, position);
    } else if (crc32(bytes) !== ref.crc) {
      this.lost++;
      this.#report.bad('blobs', `${what} does not match its checksum`, position);
    } else {
      this.checked++;
      const composition = compositionIn(bytes.toString());
      if (!composition) return;
      for (const part of refsIn(composition)) await this.#checkBody(`a part of ${what}`, part, ifMissing);
      // Only composed bodies share their parts with others.
      this.#intact.add(name);
    }
  }

  /** Keeps one file open: jobs reference blobs nearly in the order in which they were written. */
  async #read(ref: FileRef): Promise<Buffer | undefined> {
    if (this.#missing.has(ref.file)) return undefined;
    if (!this.#file || this.#fileNumber !== ref.file) {
      await this.close();
      try {
        this.#file = await this.#disk.open(join(this.#folder, blobName(ref.file)), 'read');
        this.#fileNumber = ref.file;
      } catch (error) {
        if (diskErrorCode(error) !== 'ENOENT') throw error;
        this.#missing.add(ref.file);
        return undefined;
      }
    }
    return this.#file.read(ref.offset, ref.bytes);
  }
}
