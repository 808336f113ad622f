/** Where results go: standard output, or a file that appears complete or not at all. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
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
  return path === undefined ? new Collected((text) => terminal.write(text)) : FileOutput.open(path);
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
    try {
      return new FileOutput(path, partPath, await open(partPath, 'wx', 0o666));
    } catch (error) {
      throw new UsageError(
        `"${path}" cannot be written (${(error as NodeJS.ErrnoException).code ?? error}).`,
      );
    }
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
