/** Writes the answer of a job to standard output, no faster than it is read there. */
import type { Terminal } from '../command.ts';

export class Answer {
  readonly #terminal: Terminal;
  #atLineStart = true;
  #written = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Whether any text of the current attempt was written. */
  get written(): boolean {
    return this.#written;
  }

  async write(text: string): Promise<void> {
    if (text === '') return;
    this.#written = true;
    this.#atLineStart = text.endsWith('\n');
    await this.#terminal.write(text);
  }

  async endLine(): Promise<void> {
    if (!this.#atLineStart) await this.write('\n');
    this.#written = false;
  }
}
