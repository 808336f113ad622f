/** The side of an executor: of each owner only the newest brain that it has heard of may command it. */
import type { IncomingHttpHeaders } from 'node:http';
import { OrchdError } from '../model/errors.ts';
import { type Commander, EPOCH_HEADER, OWNER_HEADER } from '../model/worker-wire.ts';

/** More owners than this have not commanded one executor; a caller that makes names up must not fill its memory. */
const MAX_OWNERS = 1000;

export class Epochs {
  readonly #highest: Map<string, number>;
  readonly #onRaise: (owner: string, epoch: number) => void;

  /** With what is remembered from before, and where to write what is new. */
  constructor(
    known: Iterable<readonly [string, number]> = [],
    onRaise: (owner: string, epoch: number) => void = () => undefined,
  ) {
    this.#highest = new Map(known);
    this.#onRaise = onRaise;
  }

  /** Who commands; throws FENCED where a later brain of the same owner has been heard. */
  check(headers: IncomingHttpHeaders): Commander {
    const who = commanderOf(headers);
    const highest = this.#highest.get(who.owner) ?? 0;
    if (who.epoch < highest) throw new OrchdError('FENCED');
    if (who.epoch === highest) return who;
    if (!this.#highest.has(who.owner) && this.#highest.size >= MAX_OWNERS) {
      throw new OrchdError('FORBIDDEN', 'too many owners have commanded here');
    }
    this.#highest.set(who.owner, who.epoch);
    this.#onRaise(who.owner, who.epoch);
    return who;
  }
}

function commanderOf(headers: IncomingHttpHeaders): Commander {
  const owner = headers[OWNER_HEADER];
  const epoch = Number(headers[EPOCH_HEADER]);
  if (typeof owner !== 'string' || !/^[A-Za-z0-9._-]{1,128}$/.test(owner)) {
    throw new OrchdError('INVALID_PARAMS', `an order needs the header ${OWNER_HEADER}`, {
      field: OWNER_HEADER,
    });
  }
  if (!Number.isSafeInteger(epoch) || epoch < 1) {
    throw new OrchdError('INVALID_PARAMS', `an order needs the header ${EPOCH_HEADER}`, {
      field: EPOCH_HEADER,
    });
  }
  return { owner, epoch };
}

/** The side of the brain. */
export const commanderHeaders = ({ owner, epoch }: Commander): Record<string, string> => ({
  [OWNER_HEADER]: owner,
  [EPOCH_HEADER]: String(epoch),
});
