/**
 * A file of jobs that is read twice: to check it, and to send it.
 *
 * S1  No line of a block of the file leaves the second reading unless the file up to the end of that block is what was
 *     checked.
 * S2  Memory does not grow with the file, except by one digest per block.
 */
import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { basename } from 'node:path';
import { namelessFile, writeAll } from '../../kit/env/nameless-file.ts';
import { type Line, LineSplitter } from '../../wire/line-splitter.ts';
import { UsageError } from '../command.ts';

const BLOCK_BYTES = 2 ** 20;
/** A longer line would be refused by a server: it is the limit of the body of a request. */
export const MAX_LINE_BYTES = 17 * 2 ** 20;

/** The file is not what was checked. */
export class FileChanged extends Error {}

export class SourceFile {
  /** As errors name it. */
  readonly label: string;
  /** The name of the batch: without folders, and undefined for standard input. */
  readonly name: string | undefined;
  readonly #file: FileHandle;
  /** The digest of the file up to the end of each block. */
  readonly #digests: Buffer[] = [];
  #bytes = 0;

  private constructor(file: FileHandle, label: string, name: string | undefined) {
    this.#file = file;
    this.label = label;
    this.name = name;
  }

  /** `-` is standard input. What cannot be read twice is copied to a temporary file, which only this process can open. */
  static async open(path: string, standardInput: AsyncIterable<Buffer>): Promise<SourceFile> {
    if (path === '-') return new SourceFile(await spool(standardInput), 'standard input', undefined);
    try {
      const file = await open(path, constants.O_RDONLY);
      const info = await file.stat();
      if (info.isDirectory()) {
        await file.close();
        throw new UsageError(`"${path}" is a folder.`);
      }
      if (info.isFile()) return new SourceFile(file, path, basename(path));
      return new SourceFile(await spool(file.createReadStream()), path, undefined);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new UsageError(`"${path}" cannot be read (${(error as NodeJS.ErrnoException).code ?? error}).`);
    }
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The digest of the whole file, once it was checked. */
  get digest(): Buffer {
    return this.#digests.at(-1) ?? createHash('sha256').digest();
  }

  /** The first reading. */
  async *check(): AsyncGenerator<Iterable<Line>> {
    yield* this.#lines(Number.POSITIVE_INFINITY, (digest, bytes) => {
      this.#digests.push(digest);
      this.#bytes += bytes;
    });
  }

  /** The second reading; throws FileChanged at the first block that is not what was checked. */
  async *read(): AsyncGenerator<Iterable<Line>> {
    let block = 0;
    yield* this.#lines(this.#bytes, (digest) => {
      if (!this.#digests[block++]?.equals(digest)) throw new FileChanged();
    });
    if (block < this.#digests.length) throw new FileChanged();
  }

  /** Whether bytes were appended since it was checked. */
  async hasGrown(): Promise<boolean> {
    return (await this.#file.stat()).size > this.#bytes;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  /** The lines of each block; those of one have to be read before the next is asked for. */
  async *#lines(end: number, take: (digest: Buffer, bytes: number) => void): AsyncGenerator<Iterable<Line>> {
    const splitter = new LineSplitter(MAX_LINE_BYTES);
    const hash: Hash = createHash('sha256');
    for (let at = 0; at < end; ) {
      const block = await this.#block(at, Math.min(BLOCK_BYTES, end - at));
      if (block.length === 0) break;
      take(hash.update(block).copy().digest(), block.length);
      yield splitter.add(block);
      at += block.length;
    }
    yield splitter.end();
  }

  /** A block of this size, shorter only at the end of the file. */
  async #block(at: number, size: number): Promise<Buffer> {
    const block = Buffer.allocUnsafeSlow(size);
    let filled = 0;
    while (filled < size) {
      const { bytesRead } = await this.#file.read(block, filled, size - filled, at + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return block.subarray(0, filled);
  }
}

async function spool(input: AsyncIterable<Buffer>): Promise<FileHandle> {
  const file = await namelessFile();
  for await (const piece of input) await writeAll(file, piece);
  return file;
}
