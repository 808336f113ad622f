/** The lines of standard input, one at a time; lines that come before they are asked for wait. */
import { createInterface, type Interface } from 'node:readline';

export class TypedLines {
  readonly #input: Interface;
  readonly #typed: string[] = [];
  #isClosed = false;
  #wake: (() => void) | undefined;

  constructor() {
    this.#input = createInterface({ input: process.stdin });
    this.#input.on('line', (line) => {
      this.#typed.push(line);
      this.#wake?.();
    });
    this.#input.on('close', () => {
      this.#isClosed = true;
      this.#wake?.();
    });
  }

  /** True where standard input is a terminal, so that a person can be asked. */
  get isPerson(): boolean {
    return process.stdin.isTTY === true;
  }

  /** Undefined at the end of the input, and if the signal comes first. */
  async next(signal?: AbortSignal): Promise<string | undefined> {
    while (this.#typed.length === 0 && !this.#isClosed && !signal?.aborted)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        signal?.addEventListener('abort', () => resolve(), { once: true });
      });
    this.#wake = undefined;
    return signal?.aborted ? undefined : this.#typed.shift();
  }

  /** Forgets the lines that nobody has asked for yet. */
  drop(): void {
    this.#typed.length = 0;
  }

  close(): void {
    this.#input.close();
  }
}
