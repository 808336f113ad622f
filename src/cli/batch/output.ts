/** Where results go: standard output, or a file that appears complete or not at all. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { writeAll } from '../../kit/env/nameless-file.ts';
import type { Terminal } from '../command.ts';
import { UsageError } from '../command.ts';

/** Small texts are written together. */
const MIN_WRITE_CHARS = 64 * 1024;

export interface Output {
  write(text: string): Promise<void>;
  /** Everything is written. */
  finish(): Promise<void>;
  /** Removes what was written to a file. */
  discard(): Promise<void>;
}

export async function outputTo(path: string | undefined, terminal: Terminal): Promise<Output> {
  if (path === undefined) return new Collected((text) => terminal.write(text));
  const info = await stat(path).catch(() => undefined);
  if (info?.isDirectory()) throw new UsageError(`"${path}" is a folder.`);
  // A device or a pipe is written to, and not replaced; of a link, the file that it leads to is replaced.
  if (info && !info.isFile()) return SpecialOutput.to(path);
  return FileOutput.open(info ? await realpath(path) : path);
}

async function opened(path: string, flags: string): Promise<FileHandle> {
  try {
    return await open(path, flags, 0o666);
  } catch (error) {
    throw new UsageError(`"${path}" cannot be written (${(error as NodeJS.ErrnoException).code ?? error}).`);
  }
}

class Collected implements Output {
  readonly #send: (text: string) => Promise<void>;
  #text = '';

  constructor(send: (text: string) => Promise<void>) {
    this.#send = send;
  }

  async write(text: string): Promise<void> {
    this.#text += text;
    if (this.#text.length >= MIN_WRITE_CHARS) await this.finish();
  }

  async finish(): Promise<void> {
    const text = this.#text;
    this.#text = '';
    if (text !== '') await this.#send(text);
  }

  async discard(): Promise<void> {}
}

/** A device, a pipe or a socket. */
class SpecialOutput extends Collected {
  readonly #file: FileHandle;

  private constructor(file: FileHandle) {
    super((text) => writeAll(file, Buffer.from(text)));
    this.#file = file;
  }

  static async to(path: string): Promise<SpecialOutput> {
    return new SpecialOutput(await opened(path, 'a'));
  }

  override discard(): Promise<void> {
    return this.#file.close();
  }
}

class FileOutput implements Output {
  readonly #path: string;
  readonly #partPath: string;
  readonly #file: FileHandle;
  readonly #content: Collected;

  private constructor(path: string, partPath: string, file: FileHandle) {
    this.#path = path;
    this.#partPath = partPath;
    this.#file = file;
    this.#content = new Collected((text) => writeAll(file, Buffer.from(text)));
  }

  static async open(path: string): Promise<FileOutput> {
    const partPath = `${path}.${randomBytes(4).toString('hex')}.part`;
    return new FileOutput(path, partPath, await opened(partPath, 'wx'));
  }

  write(text: string): Promise<void> {
    return this.#content.write(text);
  }

  async finish(): Promise<void> {
    await this.#content.finish();
    await this.#file.sync();
    await this.#file.close();
    await rename(this.#partPath, this.#path);
  }

  async discard(): Promise<void> {
    await this.#file.close().catch(() => undefined);
    await rm(this.#partPath, { force: true });
  }
}
