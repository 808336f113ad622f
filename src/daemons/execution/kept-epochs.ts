/** Fences commands like Epochs, over a restart of the executor too: an opening is obeyed once its record is durable. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Commander, Opening } from '../../model/worker-wire.ts';
import { Epochs, type KnownOpenings } from '../../wire/epochs.ts';
import type { KeptMemory } from './kept-memory.ts';

export class KeptEpochs {
  readonly #kept: Pick<KeptMemory, 'state' | 'write'>;
  readonly #epochs: Epochs;
  /** Openings that are not durable yet, by owner. */
  readonly #raised = new Map<string, KnownOpenings>();

  constructor(kept: Pick<KeptMemory, 'state' | 'write'>) {
    this.#kept = kept;
    this.#epochs = new Epochs(kept.state.openings, (owner, openings) => this.#raised.set(owner, openings));
  }

  /** Throws FENCED for an opening that was replaced; settles when the opening is on stable storage. */
  async check(headers: IncomingHttpHeaders): Promise<Commander> {
    const { owner } = this.#epochs.check(headers);
    for (let openings = this.#raised.get(owner); openings; openings = this.#raised.get(owner)) {
      await this.#kept.write({ is: 'opening', owner, openings });
      if (this.#raised.get(owner) === openings) this.#raised.delete(owner);
    }
    // A newer opening may have come during the write.
    return this.#epochs.check(headers);
  }

  openingBefore(owner: string): Opening | undefined {
    return this.#epochs.openingBefore(owner);
  }
}
