/** The room that a server has for the bodies of requests: those that are being received or parsed. */
import { Budget } from '../kit/budget.ts';
import { ByteRoom } from '../kit/byte-room.ts';

export class BodyRoom extends ByteRoom {
  readonly #parsing = new Budget(1);

  /** Parses large bodies one after another: a turn of the event loop holds a slice of one of them only. */
  parseAlone<T>(parse: () => Promise<T>): Promise<T> {
    return this.#parsing.spend(1, parse);
  }
}
