/** The text of a job on its way to standard output, as fast as that takes it. */
import { once } from 'node:events';
import { harmless } from './screen.ts';

export class Answer {
  readonly #out: NodeJS.WriteStream;
  #atLineStart = true;
  #written = false;

  constructor(out: NodeJS.WriteStream = process.stdout) {
    this.#out = out;
  }

  /** Whether anything of the present attempt was written. */
  get written(): boolean {
    return this.#written;
  }

  async write(text: string): Promise<void> {
    if (text === '') return;
    this.#written = true;
    this.#atLineStart = text.endsWith('\n');
    // A file or another program gets what the backend said; a screen must not be ruled by it.
    if (!this.#out.write(this.#out.isTTY ? harmless(text) : text)) await once(this.#out, 'drain');
  }

  async endLine(): Promise<void> {
    if (!this.#atLineStart) await this.write('\n');
    this.#written = false;
  }
}
