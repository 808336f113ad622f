/**
 * Notices that the store of this brain is an older copy than what an executor has seen: somebody restored a backup, or
 * runs a second brain on a copy. Such an executor gets no work, and the brain says so, until it is started as a copy:
 * then it has an owner id of its own, and the executor keeps the two apart.
 */
import type { Store } from '../core/ports/store.ts';
import type { Logger } from '../kit/logger.ts';
import { OrchdError } from '../model/errors.ts';
import type { BrainRecord } from '../model/records.ts';
import type { Opening } from '../model/worker-wire.ts';
import type { Loop } from './loop.ts';

/** One finding, for people: which backend, and what it knows. */
export interface Disagreement {
  readonly backend: string;
  readonly what: string;
}

export const WAY_OUT = 'if this store is a restored backup or a copy, start it once with --this-is-a-copy';

export interface DivergenceParts {
  readonly logger: Logger | undefined;
  /** Whether nobody else can open the store. Elsewhere an executor that refuses this brain obeys the next leader. */
  readonly isSoleWriter: boolean;
  readonly fail: (error: Error) => void;
}

export class Divergence {
  readonly #parts: DivergenceParts;
  readonly #found = new Map<string, Disagreement>();

  constructor(parts: DivergenceParts) {
    this.#parts = parts;
  }

  static of(store: Store, logger: Logger | undefined, loop: Pick<Loop, 'fail'>): Divergence {
    const isSoleWriter = store.capabilities.secondOpener === 'exclusive';
    return new Divergence({ logger, isSoleWriter, fail: (error) => loop.fail(error) });
  }

  /** What was found so far, one line per backend. */
  get found(): readonly Disagreement[] {
    return [...this.#found.values()];
  }

  /** An executor refuses this brain: it has obeyed a later opening of the store, or another one of the same epoch. */
  fenced(backend: string): void {
    if (!this.#parts.isSoleWriter) return this.#parts.fail(new OrchdError('FENCED'));
    this.#note(backend, 'it has obeyed a later opening of this store, and refuses this one');
  }

  /** Waits for the answer of an executor; one that refuses this brain counts as silent where nobody else can lead. */
  async answerOf<T>(backend: string, call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      const isFenced = error instanceof OrchdError && error.code === 'FENCED';
      if (!isFenced || !this.#parts.isSoleWriter) throw error;
      this.fenced(backend);
      throw new OrchdError('WORKER_UNAVAILABLE', 'it obeys another copy of this store', {}, { cause: error });
    }
  }

  /** A token that this store believes to be new has run another body. */
  conflict(backend: string, token: string): void {
    this.#note(backend, `it has run another body under the token ${token}`);
  }

  /** Whether an executor was commanded before by an opening that is not in the past of this store. */
  isForeign(backend: string, before: Opening | undefined, brain: BrainRecord | undefined): boolean {
    if (before?.nonce === undefined || !brain?.openings || isKnown(before, brain)) return false;
    this.#note(backend, 'it was commanded by an opening of this store that this copy does not know');
    return true;
  }

  /** The first finding of a backend is enough to act on. */
  #note(backend: string, what: string): void {
    if (this.#found.has(backend)) return;
    this.#found.set(backend, { backend, what });
    this.#parts.logger?.error(`a backend knows another copy of this store: ${what}; ${WAY_OUT}`, {
      backend,
    });
  }
}

/** An opening that is older than the list reaches back cannot be told, and counts as known. */
function isKnown({ epoch, nonce }: Opening, { openings = [] }: BrainRecord): boolean {
  const oldest = openings.at(-1)?.epoch ?? Number.POSITIVE_INFINITY;
  return (
    epoch < oldest || openings.some((known) => known.epoch === epoch && (known.nonce ?? nonce) === nonce)
  );
}
