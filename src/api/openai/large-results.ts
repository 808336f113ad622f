/**
 * Makes answers of results that are too large for one turn of the event loop: one after another and in slices. An answer
 * waits until there is room for it: its job has run already, so that refusing the caller would run it again.
 */
import { Budget } from '../../kit/budget.ts';
import type { ByteRoom } from '../../kit/byte-room.ts';
import type { Timers } from '../../kit/env/env.ts';
import type { LargeValue } from '../../kit/held-bytes.ts';
import { JsonFaultError, parseInSlices } from '../../kit/json-parser.ts';
import { inSlices, type Sliced } from '../../kit/slices.ts';
import type { LargeJson } from '../../wire/route.ts';

/** The result of a job: parsed if it is small, else still in the store. */
export type JobResult = { readonly value: unknown; readonly large?: never } | { readonly large: LargeValue };

/** Bytes that are decoded in one slice. */
const DECODED_BYTES = 4 * 2 ** 20;

export class LargeResults {
  readonly #room: ByteRoom;
  readonly #timers: Timers;
  /** Only one result at a time: its parsed form takes more memory than its text. */
  readonly #alone = new Budget(1);

  constructor(room: ByteRoom, timers: Timers) {
    this.#room = room;
    this.#timers = timers;
  }

  /** The text that `write` makes of the result; it counts as used memory until it is released. */
  answer(result: JobResult, write: (value: unknown) => Sliced<string>): Promise<LargeJson> {
    return this.#alone.spend(1, async () => {
      const value = result.large ? await this.#read(result.large) : result.value;
      const text = await inSlices(write(value), this.#timers);
      const { release } = await this.#room.wait(Buffer.byteLength(text));
      return { pieces: [text], release };
    });
  }

  async #read(large: LargeValue): Promise<unknown> {
    const { bytes, release } = await large.open('later');
    try {
      return await inSlices(parsed(bytes), this.#timers);
    } finally {
      release();
    }
  }
}

/** Parses the text; one beyond the bounds of the parser, which no worker sends, stands for itself. */
function* parsed(bytes: Buffer): Sliced<unknown> {
  const text = yield* decoded(bytes);
  try {
    return yield* parseInSlices(text, Number.POSITIVE_INFINITY);
  } catch (error) {
    if (error instanceof JsonFaultError) return text;
    throw error;
  }
}

function* decoded(bytes: Buffer): Sliced<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += DECODED_BYTES) {
    parts.push(decoder.decode(bytes.subarray(at, at + DECODED_BYTES), { stream: true }));
    yield;
  }
  return parts.join('');
}
