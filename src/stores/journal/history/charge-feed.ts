/** Passes closed attempts that have a charge on to the index, once their changes are durable. */
import type { Seq } from '../../../core/ports/store.ts';
import { isCharged } from '../../../model/charge.ts';
import type { AskRecord, AttemptRecord, Change } from '../../../model/records.ts';
import type { AskOf } from '../../charges.ts';
import type { Indexer } from './indexer.ts';

export class ChargeFeed {
  readonly #askOf: AskOf;
  readonly #indexer: Pick<Indexer, 'addCharged'>;
  /** The charged attempts of changes that are not durable yet, in their order. */
  readonly #pending: {
    readonly seq: Seq;
    readonly attempt: AttemptRecord;
    readonly ask: AskRecord;
  }[] = [];

  constructor(askOf: AskOf, indexer: Pick<Indexer, 'addCharged'>) {
    this.#askOf = askOf;
    this.#indexer = indexer;
  }

  /** Attempts are closed once; a redrive writes their records again, which makes the same charges. */
  appended(change: Change, seq: Seq): void {
    if (change.kind !== 'attempt' || !change.after || !isCharged(change.after)) return;
    const ask = this.#askOf(change.after.job);
    if (ask) this.#pending.push({ seq, attempt: change.after, ask });
  }

  /** Every change up to `seq` is durable. */
  durable(seq: Seq): void {
    const later = this.#pending.findIndex((each) => each.seq > seq);
    const durable = this.#pending.splice(0, later < 0 ? this.#pending.length : later);
    for (const { attempt, ask } of durable) this.#indexer.addCharged(attempt, ask);
  }
}
