/** Passes the charges of appended changes on to the index, once the changes are durable. */
import type { Seq } from '../../../core/ports/store.ts';
import type { Charge } from '../../../model/charge.ts';
import type { Change } from '../../../model/records.ts';
import { type AskOf, chargeIn } from '../../charges.ts';
import type { Indexer } from './indexer.ts';

export class ChargeFeed {
  readonly #askOf: AskOf;
  readonly #indexer: Pick<Indexer, 'addCharges'>;
  /** The charges of changes that are not durable yet, in their order. */
  readonly #pending: { readonly seq: Seq; readonly charge: Charge }[] = [];

  constructor(askOf: AskOf, indexer: Pick<Indexer, 'addCharges'>) {
    this.#askOf = askOf;
    this.#indexer = indexer;
  }

  appended(change: Change, seq: Seq): void {
    const charge = chargeIn(change, this.#askOf);
    if (charge) this.#pending.push({ seq, charge });
  }

  /** Every change up to `seq` is durable. */
  durable(seq: Seq): void {
    const later = this.#pending.findIndex((each) => each.seq > seq);
    const durable = this.#pending.splice(0, later < 0 ? this.#pending.length : later);
    this.#indexer.addCharges(durable.map(({ charge }) => charge));
  }
}
