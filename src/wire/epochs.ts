/** Fences commands to an executor: for each owner, only the brain with the highest epoch seen so far may command it. */
import type { IncomingHttpHeaders } from 'node:http';
import { OrchdError } from '../model/errors.ts';
import { type Commander, EPOCH_HEADER, OWNER_HEADER } from '../model/worker-wire.ts';

/** Limit of owners that may command one executor, so that a caller which makes up names cannot fill its memory. */
const MAX_OWNERS = 1000;

export class Epochs {
  readonly #highest: Map<string, number>;
  readonly #onRaise: (owner: string, epoch: number) => void;

  /** `known` holds the epochs recorded by an earlier process; `onRaise` records a new one. */
  constructor(
    known: Iterable<readonly [string, number]> = [],
    onRaise: (owner: string, epoch: number) => void = () => undefined,
  ) {
    this.#highest = new Map(known);
    this.#onRaise = onRaise;
  }

  /** Returns the owner and epoch of a command; throws FENCED if a higher epoch of the same owner was seen before. */
  check(headers: IncomingHttpHeaders): Commander {
    const commander = commanderOf(headers);
    const highest = this.#highest.get(commander.owner) ?? 0;
    if (commander.epoch < highest) throw new OrchdError('FENCED');
    if (commander.epoch === highest) return commander;
    if (!this.#highest.has(commander.owner) && this.#highest.size >= MAX_OWNERS) {
      throw new OrchdError('FORBIDDEN', 'too many owners have commanded here');
    }
    this.#highest.set(commander.owner, commander.epoch);
    this.#onRaise(commander.owner, commander.epoch);
    return commander;
  }
}

function commanderOf(headers: IncomingHttpHeaders): Commander {
  const owner = headers[OWNER_HEADER];
  const epoch = Number(headers[EPOCH_HEADER]);
  if (typeof owner !== 'string' || !/^[A-Za-z0-9._-]{1,128}$/.test(owner)) {
    throw new OrchdError('INVALID_PARAMS', `a command needs the header ${OWNER_HEADER}`, {
      field: OWNER_HEADER,
    });
  }
  if (!Number.isSafeInteger(epoch) || epoch < 1) {
    throw new OrchdError('INVALID_PARAMS', `a command needs the header ${EPOCH_HEADER}`, {
      field: EPOCH_HEADER,
    });
  }
  return { owner, epoch };
}

/** The headers by which a brain identifies itself to an executor. */
export const commanderHeaders = ({ owner, epoch }: Commander): Record<string, string> => ({
  [OWNER_HEADER]: owner,
  [EPOCH_HEADER]: String(epoch),
});
