/**
 * Reads the events of a job from its `events.jsonl`. Event 1 is `started`; every line with a text `t` is one more. The
 * numbers depend on the bytes of the file alone, so they are the same for every reader, before and after any restart.
 */
import type { ExecutionEvent } from '../../core/ports/backend.ts';
import type { DiskFile } from '../../kit/env/env.ts';

const CHUNK_BYTES = 64 * 1024;
/** A longer line is passed over. */
export const MAX_LINE_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

export class EventLines {
  readonly #file: DiskFile;
  readonly #from: number;
  /** The pieces of the line that has not ended yet. */
  #line: Buffer[] = [];
  #lineBytes = 0;
  #offset = 0;
  /** The number of the last event; `started` has no line. */
  #n = 1;

  /** `from`: the number of the last event that the reader has already. */
  constructor(file: DiskFile, from: number) {
    this.#file = file;
    this.#from = from;
  }

  /** Passes on what is in the file. `isWhole`: nothing more is written, so that the last line needs no newline. */
  async read(on: (event: ExecutionEvent) => void, signal: AbortSignal, isWhole: boolean): Promise<void> {
    while (!signal.aborted) {
      const bytes = await this.#file.read(this.#offset, CHUNK_BYTES);
      this.#offset += bytes.length;
      this.#take(bytes, on, signal);
      if (bytes.length < CHUNK_BYTES) break;
    }
    if (isWhole && !signal.aborted) this.#endLine(on);
  }

  #take(bytes: Buffer, on: (event: ExecutionEvent) => void, signal: AbortSignal): void {
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, from)) {
      if (signal.aborted) return;
      this.#add(bytes.subarray(from, at));
      this.#endLine(on);
      from = at + 1;
    }
    this.#add(bytes.subarray(from));
  }

  #add(piece: Buffer): void {
    this.#lineBytes += piece.length;
    // What is too long is counted, and not kept.
    if (this.#lineBytes <= MAX_LINE_BYTES && piece.length > 0) this.#line.push(piece);
  }

  #endLine(on: (event: ExecutionEvent) => void): void {
    const text = this.#lineBytes <= MAX_LINE_BYTES ? textIn(Buffer.concat(this.#line)) : undefined;
    this.#line = [];
    this.#lineBytes = 0;
    if (text === undefined) return;
    const n = ++this.#n;
    if (n > this.#from) on({ n, type: 'token', data: { t: text, i: n - 2 } });
  }
}

/** The text `t` of a line; undefined where there is none. */
function textIn(line: Buffer): string | undefined {
  if (line.length === 0) return undefined;
  try {
    const { t } = (JSON.parse(line.toString()) ?? {}) as { readonly t?: unknown };
    return typeof t === 'string' ? t : undefined;
  } catch {
    return undefined;
  }
}
