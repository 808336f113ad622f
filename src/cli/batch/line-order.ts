/**
 * Brings the results of a batch into the order of the lines of its file. They arrive in the order of their admission, which
 * is the same unless lines were submitted again later.
 *
 * L1  A line is passed on as soon as all lines before it were passed on. What comes early is held: in memory up to
 *     MAX_HELD_CHARS, beyond that in a temporary file that only this process can open.
 * L2  At the end, what is still held is passed on in order: the lines between are not among the results.
 */
import type { FileHandle } from 'node:fs/promises';
import { namelessFile, writeAll } from '../../kit/env/nameless-file.ts';

const MAX_HELD_CHARS = 16 * 2 ** 20;

/** The text of a result, or where it lies in the temporary file. */
type Held = string | { readonly at: number; readonly bytes: number };

export class LineOrder {
  readonly #write: (text: string) => Promise<void>;
  readonly #held = new Map<number, Held>();
  readonly #maxHeldChars: number;
  #heldChars = 0;
  #next = 1;
  #file: FileHandle | undefined;
  #fileBytes = 0;

  constructor(write: (text: string) => Promise<void>, maxHeldChars = MAX_HELD_CHARS) {
    this.#write = write;
    this.#maxHeldChars = maxHeldChars;
  }

  /** Number of results that are held. */
  get held(): number {
    return this.#held.size;
  }

  /** A result without a line is passed on at once: it was not submitted from a file. */
  async add(line: number | undefined, text: string): Promise<void> {
    if (line === undefined || line < this.#next) return this.#write(text);
    if (line > this.#next) return this.#hold(line, text);
    await this.#write(text);
    this.#next++;
    for (let held = this.#held.get(this.#next); held !== undefined; held = this.#held.get(this.#next)) {
      await this.#release(this.#next, held);
      this.#next++;
    }
  }

  async end(): Promise<void> {
    for (const line of [...this.#held.keys()].sort((a, b) => a - b))
      await this.#release(line, this.#held.get(line) as Held);
    await this.close();
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  async #hold(line: number, text: string): Promise<void> {
    if (this.#heldChars + text.length <= this.#maxHeldChars) {
      this.#heldChars += text.length;
      this.#held.set(line, text);
      return;
    }
    const bytes = Buffer.from(text);
    this.#file ??= await namelessFile();
    await writeAll(this.#file, bytes, this.#fileBytes);
    this.#held.set(line, { at: this.#fileBytes, bytes: bytes.length });
    this.#fileBytes += bytes.length;
  }

  async #release(line: number, held: Held): Promise<void> {
    this.#held.delete(line);
    if (typeof held === 'string') {
      this.#heldChars -= held.length;
      return this.#write(held);
    }
    const bytes = Buffer.allocUnsafe(held.bytes);
    await this.#file?.read(bytes, 0, held.bytes, held.at);
    await this.#write(bytes.toString('utf8'));
  }
}

/** The number of the line in the id of a job that was submitted from a file: `<batch>.<line>`. */
export function lineOf(jobId: string, batch: string): number | undefined {
  if (!jobId.startsWith(`${batch}.`)) return undefined;
  const rest = jobId.slice(batch.length + 1);
  return /^[1-9]\d{0,14}$/.test(rest) ? Number(rest) : undefined;
}
