/**
 * Makes a checkpoint from the last one and the sealed log since. It merges files and needs nothing of the state in
 * memory, so it can run on another thread. Large parts in which no record changed are reused without being rewritten
 * (docs/decisions/0004).
 */
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Disk, DiskFile } from '../../../kit/env/env.ts';
import { OrchdError } from '../../../model/errors.ts';
import { BRAIN_ID, type Change } from '../../../model/records.ts';
import { isEnded } from '../../records.ts';
import type { Paths } from '../layout.ts';
import { FORMAT } from '../layout.ts';
import { decodeChanges } from '../log/codec.ts';
import { type LogFrame, readLog, readWhole } from '../log/segments.ts';
import { Delta } from './delta.ts';
import { bundleLine, type Line, linesOf, readBundle, readLine, writeLine } from './line.ts';
import type { Manifest, Part } from './manifest.ts';

export interface MergeOrder {
  /** The last checkpoint. */
  readonly base: Manifest;
  /** The last change of the sealed log. */
  readonly upTo: number;
  /** Every job that ended at or before this change is in the history. */
  readonly indexedUpTo: number;
}

const PART_BYTES = 16 * 2 ** 20;
/** Parts smaller than this are always rewritten, so that small parts do not pile up. */
const SMALL_PART_BYTES = 4 * 2 ** 20;
const WRITE_CHARS = 2 ** 20;

export async function mergeCheckpoint(disk: Disk, paths: Paths, order: MergeOrder): Promise<Manifest> {
  const delta = new Delta(order.base.seq);
  const { chain, at } = await readDelta(disk, paths, order, delta);
  const writer = new PartWriter(disk, paths.parts, order.upTo);
  try {
    const kept = await mergeParts(disk, paths, order, delta, writer);
    await writeLoose(delta, at, writer);
    const written = await writer.finish();
    await disk.syncFolder(paths.parts);
    const indexedUpTo = Math.min(order.indexedUpTo, order.upTo);
    return { format: FORMAT, seq: order.upTo, chain, at, indexedUpTo, parts: [...kept, ...written] };
  } finally {
    await writer.close();
  }
}

async function mergeParts(
  disk: Disk,
  paths: Paths,
  order: MergeOrder,
  delta: Delta,
  writer: PartWriter,
): Promise<readonly Part[]> {
  const kept: Part[] = [];
  for (const part of order.base.parts) {
    const bytes = await readPart(disk, paths, part);
    if (part.bytes >= SMALL_PART_BYTES && isUntouched(bytes, delta, order)) kept.push(part);
    else await copyPart(bytes, delta, order, writer);
  }
  await writeRest(delta, order, writer);
  return kept;
}

/** Reads the log into `delta`; returns the payload checksum and the instant of its last frame. */
async function readDelta(
  disk: Disk,
  paths: Paths,
  order: MergeOrder,
  delta: Delta,
): Promise<{ chain: number; at: number }> {
  const { base, upTo } = order;
  let { chain, at } = base;
  const start = { nextSeq: base.seq + 1, chain: base.chain };
  const addFrame = ({ header, payload }: LogFrame): void => {
    decodeChanges(payload, header.count).forEach((change, index) => {
      delta.add(change, header.firstSeq + index);
      if (change.kind !== 'ask') delta.dropEnded(jobOf(change), order.indexedUpTo);
    });
    chain = header.payloadCrc;
    at = header.at;
  };
  const { nextSeq } = await readLog(disk, paths.log, start, addFrame, upTo);
  if (nextSeq !== upTo + 1) throw new OrchdError('STORE_CORRUPT', `the log ends before change ${upTo}`);
  return { chain, at };
}

const jobOf = (change: Change): string => (change.kind === 'attempt' ? (change.after?.job ?? '') : change.id);

export async function readPart(disk: Disk, paths: Paths, part: Part): Promise<Buffer> {
  const bytes = await readWhole(disk, join(paths.parts, part.name));
  if (bytes.length !== part.bytes || crc32(bytes) !== part.crc) {
    const position = `checkpoints/${part.name}:0`;
    throw new OrchdError('STORE_CORRUPT', `checkpoints/${part.name} does not match its checksum`, {
      position,
    });
  }
  return bytes;
}

/** The tags of lines that hold no job (see line.ts). */
const LOOSE_TAGS: ReadonlySet<string> = new Set(['F', 'B', 'H', 'K']);

function isUntouched(bytes: Buffer, delta: Delta, order: MergeOrder): boolean {
  for (const text of linesOf(bytes)) {
    const line = readLine(text);
    if (LOOSE_TAGS.has(line.tag)) return false;
    if (delta.jobs.has(line.id) || isIndexed(line, order)) return false;
  }
  return true;
}

/** An ended job that the history holds needs no line any more. */
const isIndexed = (line: Line, order: MergeOrder): boolean =>
  line.tag === 'E' && line.seq <= order.indexedUpTo;

async function copyPart(bytes: Buffer, delta: Delta, order: MergeOrder, writer: PartWriter): Promise<void> {
  for (const text of linesOf(bytes)) {
    const line = readLine(text);
    if (line.tag === 'B') {
      delta.brain ??= JSON.parse(line.json);
    } else if (line.tag === 'F') {
      delta.keepFailure(line.id, JSON.parse(line.json));
    } else if (line.tag === 'H') {
      delta.keepLease(line.id, JSON.parse(line.json));
    } else if (line.tag === 'K') {
      delta.keepRecord(line.id, JSON.parse(line.json));
    } else if (delta.jobs.has(line.id)) {
      const bundle = delta.bundle(line.id, readBundle(line));
      delta.jobs.delete(line.id);
      if (bundle && !(isEnded(bundle) && bundle.seq <= order.indexedUpTo)) writer.add(bundleLine(bundle));
    } else if (!isIndexed(line, order)) {
      writer.add(`${text}\n`);
    }
    if (writer.needsDrain) await writer.drain();
  }
}

/** Writes the jobs of the log that no part of the base contained. */
async function writeRest(delta: Delta, order: MergeOrder, writer: PartWriter): Promise<void> {
  for (const uid of delta.jobs.keys()) {
    const bundle = delta.bundle(uid, undefined);
    if (bundle && !(isEnded(bundle) && bundle.seq <= order.indexedUpTo)) writer.add(bundleLine(bundle));
    if (writer.needsDrain) await writer.drain();
  }
}

/**
 * Writes the records that belong to no job. Entries of the failure cache that had expired at the last commit (`at`) are
 * left out; the wall clock may be wrong.
 */
async function writeLoose(delta: Delta, at: number, writer: PartWriter): Promise<void> {
  // These records change often: in a part of their own they do not cause a large part to be rewritten.
  await writer.nextPart();
  for (const [id, failure] of delta.allFailures()) {
    if (failure.until > at) writer.add(writeLine('F', id, 0, failure));
  }
  for (const [id, lease] of delta.leases) if (lease) writer.add(writeLine('H', id, 0, lease));
  for (const [name, record] of delta.kept) if (record) writer.add(writeLine('K', name, 0, record));
  if (delta.brain) writer.add(writeLine('B', BRAIN_ID, 0, delta.brain));
}

/** Writes lines into parts of about PART_BYTES, each synced before it is reported. */
export class PartWriter {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #seq: number;
  readonly #parts: Part[] = [];
  #text = '';
  #records = 0;
  #file: DiskFile | undefined;
  #bytes = 0;
  #crc = 0;

  constructor(disk: Disk, folder: string, seq: number) {
    this.#disk = disk;
    this.#folder = folder;
    this.#seq = seq;
  }

  /** Enough text is buffered for drain() to be called. */
  get needsDrain(): boolean {
    return this.#text.length >= WRITE_CHARS;
  }

  add(line: string): void {
    this.#text += line;
    this.#records++;
  }

  /** Writes the buffered lines to the current part. */
  async drain(): Promise<void> {
    if (this.#text === '') return;
    const bytes = Buffer.from(this.#text, 'utf8');
    this.#text = '';
    this.#file ??= await this.#disk.open(join(this.#folder, this.#name()), 'create');
    await this.#file.write(this.#bytes, bytes);
    this.#crc = crc32(bytes, this.#crc);
    this.#bytes += bytes.length;
    if (this.#bytes >= PART_BYTES) await this.#seal();
  }

  async nextPart(): Promise<void> {
    await this.drain();
    await this.#seal();
  }

  async finish(): Promise<Part[]> {
    await this.nextPart();
    return this.#parts;
  }

  /** Closes the file of an unfinished part, after a failure. */
  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  #name(): string {
    return `${String(this.#seq).padStart(16, '0')}-${this.#parts.length}.part`;
  }

  async #seal(): Promise<void> {
    if (!this.#file) return;
    await this.#file.datasync();
    await this.#file.close();
    this.#parts.push({ name: this.#name(), bytes: this.#bytes, crc: this.#crc, records: this.#records });
    this.#file = undefined;
    this.#bytes = 0;
    this.#crc = 0;
    this.#records = 0;
  }
}
