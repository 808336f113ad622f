/** Parses the records of many lines of the log at once, which costs less than one parse for each. */
import { OrchdError } from '../../../model/errors.ts';
import type { RecordKind, RecordKinds } from '../../../model/records.ts';
import { upcast } from '../../../model/upcast.ts';
import type { LogLine } from './last-changes.ts';

const FIRST_BYTES = 128 * 2 ** 10;

const OPEN = 0x5b;
const CLOSE = 0x5d;
const COMMA = 0x2c;

/** The record of a line in the form of today; null for a record that was deleted. */
export type LineRecord = RecordKinds[RecordKind] | null;

export class LineParser {
  /** The lines as the elements of a JSON array. */
  #text = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #used = 1;
  /** The number of lines that were added since the last `take`. */
  count = 0;

  /** The bytes of the lines that were added since the last `take`. */
  get bytes(): number {
    return this.#used;
  }

  add({ bytes, from, to }: LogLine): void {
    const end = this.#used + to - from;
    if (end + 1 > this.#text.length) this.#grow(end + 1);
    bytes.copy(this.#text, this.#used, from, to);
    this.#text[end] = COMMA;
    this.#used = end + 1;
    this.count++;
  }

  /** The records of the lines that were added since the last call, in their order. */
  take(): LineRecord[] {
    if (this.count === 0) return [];
    this.#text[0] = OPEN;
    this.#text[this.#used - 1] = CLOSE;
    const changes = parse(this.#text.toString('utf8', 0, this.#used));
    if (changes.length !== this.count) throw undecodable();
    this.#used = 1;
    this.count = 0;
    const records: LineRecord[] = [];
    for (const [kind, , after] of changes) records.push(after && upcast(kind, after as never));
    return records;
  }

  #grow(atLeast: number): void {
    const text = Buffer.allocUnsafeSlow(2 * atLeast);
    this.#text.copy(text, 0, 0, this.#used);
    this.#text = text;
  }
}

type StoredChange = readonly [kind: RecordKind, id: string, after: { v: number } | null];

function parse(text: string): StoredChange[] {
  try {
    return JSON.parse(text) as StoredChange[];
  } catch (error) {
    throw undecodable(error);
  }
}

const undecodable = (cause?: unknown): OrchdError =>
  new OrchdError('STORE_CORRUPT', 'a change cannot be decoded', {}, { cause });
