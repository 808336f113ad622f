/** The parallel sequences of one context. A conversation finds the one that holds what it said before. */
import type { LlamaContextSequence } from 'node-llama-cpp';

export interface Slot {
  readonly sequence: LlamaContextSequence;
  /** Whose words are in it. */
  session: string | undefined;
}

export class Slots {
  /** The one that was given back first is the first: its words are the least likely to be wanted again. */
  readonly #free: Slot[];

  constructor(sequences: readonly LlamaContextSequence[]) {
    this.#free = sequences.map((sequence) => ({ sequence, session: undefined }));
  }

  /** There is one: no more run at once than there are. */
  take(session: string | undefined): Slot {
    const known = session === undefined ? -1 : this.#free.findIndex((slot) => slot.session === session);
    const unused = this.#free.findIndex((slot) => slot.session === undefined);
    const [slot] = this.#free.splice(Math.max(known >= 0 ? known : unused, 0), 1);
    if (!slot) throw new Error('more executions than sequences');
    slot.session = session;
    return slot;
  }

  give(slot: Slot): void {
    this.#free.push(slot);
  }
}
