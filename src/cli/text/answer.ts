/** Writes the answer of a job to standard output, no faster than it is read there. */
import { once } from 'node:events';
import { harmless } from './screen.ts';

export class Answer {
  readonly #out: NodeJS.WriteStream;
  #atLineStart = true;
  #written = false;

  constructor(out: NodeJS.WriteStream = process.stdout) {
    this.#out = out;
  }

  /** Whether any text of the current attempt was written. */
  get written(): boolean {
    return this.#written;
  }

  async write(text: string): Promise<void> {
    if (text === '') return;
    this.#written = true;
    this.#atLineStart = text.endsWith('\n');
    // A file or another program gets the text unchanged; on a terminal control characters are made visible.
    if (!this.#out.write(this.#out.isTTY ? harmless(text) : text)) await once(this.#out, 'drain');
  }

  async endLine(): Promise<void> {
    if (!this.#atLineStart) await this.write('\n');
    this.#written = false;
  }
}
