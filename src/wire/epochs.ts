/**
 * Fences commands to an executor: for each owner, only the brain with the highest epoch seen so far may command it. Of
 * two brains with the same epoch only the first may: they run on two copies of one store.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { OrchdError } from '../model/errors.ts';
import {
  type Commander,
  EPOCH_HEADER,
  NONCE_HEADER,
  type Opening,
  OWNER_HEADER,
} from '../model/worker-wire.ts';

/** Limit of owners that may command one executor, so that a caller which makes up names cannot fill its memory. */
const MAX_OWNERS = 1000;

/** What an executor remembers of an owner: its last opening, and the one before that. */
export interface KnownOpenings extends Opening {
  readonly before?: Opening | undefined;
}

export type OpeningVerdict =
  | { readonly is: 'current' }
  | { readonly is: 'newer'; readonly openings: KnownOpenings }
  | { readonly is: 'fenced' };

/** Decides whether a commander is obeyed, by what is known of its owner. */
export function judgeOpening(known: KnownOpenings | undefined, { epoch, nonce }: Commander): OpeningVerdict {
  if (!known || epoch > known.epoch) {
    const before = known && { epoch: known.epoch, nonce: known.nonce };
    return { is: 'newer', openings: { epoch, nonce, before } };
  }
  const isOther = known.nonce !== undefined && nonce !== undefined && known.nonce !== nonce;
  return epoch < known.epoch || isOther ? { is: 'fenced' } : { is: 'current' };
}

export class Epochs {
  readonly #known: Map<string, KnownOpenings>;
  readonly #onRaise: (owner: string, openings: KnownOpenings) => void;

  /** `known` holds what an earlier process recorded; `onRaise` records a new opening. */
  constructor(
    known: Iterable<readonly [string, KnownOpenings]> = [],
    onRaise: (owner: string, openings: KnownOpenings) => void = () => undefined,
  ) {
    this.#known = new Map(known);
    this.#onRaise = onRaise;
  }

  /** Returns who commands; throws FENCED if a higher epoch of the same owner, or another brain of this epoch, was seen. */
  check(headers: IncomingHttpHeaders): Commander {
    const commander = commanderOf(headers);
    const { owner } = commander;
    const verdict = judgeOpening(this.#known.get(owner), commander);
    if (verdict.is === 'fenced') throw new OrchdError('FENCED');
    if (verdict.is === 'current') return commander;
    if (!this.#known.has(owner) && this.#known.size >= MAX_OWNERS) {
      throw new OrchdError('FORBIDDEN', 'too many owners have commanded here');
    }
    this.#known.set(owner, verdict.openings);
    this.#onRaise(owner, verdict.openings);
    return commander;
  }

  /** The opening that commanded before the present one. */
  openingBefore(owner: string): Opening | undefined {
    return this.#known.get(owner)?.before;
  }
}

function commanderOf(headers: IncomingHttpHeaders): Commander {
  const owner = headers[OWNER_HEADER];
  const epoch = Number(headers[EPOCH_HEADER]);
  const nonce = headers[NONCE_HEADER];
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
  return { owner, epoch, nonce: typeof nonce === 'string' && NONCE.test(nonce) ? nonce : undefined };
}

const NONCE = /^[A-Za-z0-9]{1,64}$/;

/** The headers by which a brain identifies itself to an executor. */
export const commanderHeaders = ({ owner, epoch, nonce }: Commander): Record<string, string> => ({
  [OWNER_HEADER]: owner,
  [EPOCH_HEADER]: String(epoch),
  ...(nonce !== undefined && { [NONCE_HEADER]: nonce }),
});
