/** The parallel sequences of one context. A session gets the sequence that still holds its earlier messages. */
import type { LlamaContextSequence } from 'node-llama-cpp';

export interface Slot {
  readonly sequence: LlamaContextSequence;
  /** The session whose messages the sequence holds. */
  session: string | undefined;
}

export class Slots {
  /** Ordered by release time, the longest unused first: it is the least likely to be used by its session again. */
  readonly #free: Slot[];

  constructor(sequences: readonly LlamaContextSequence[]) {
    this.#free = sequences.map((sequence) => ({ sequence, session: undefined }));
  }

  /** Never empty when called, because at most as many executions run as there are slots. */
  take(session: string | undefined): Slot {
    const known = session === undefined ? -1 : this.#free.findIndex((slot) => slot.session === session);
    const unused = this.#free.findIndex((slot) => slot.session === undefined);
    const [slot] = this.#free.splice(Math.max(known >= 0 ? known : unused, 0), 1);
    if (!slot) throw new Error('more executions than sequences');
    slot.session = session;
    return slot;
  }

  release(slot: Slot): void {
    this.#free.push(slot);
  }
}
