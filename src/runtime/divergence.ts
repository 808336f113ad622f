/**
 * Notices that the store of this brain is an older copy than what an executor has seen: somebody restored a backup, or
 * runs a second brain on a copy. Such an executor gets no work, and the brain says so, until it is started as a copy:
 * then it has an owner id of its own, and the executor keeps the two apart.
 */
import type { Store } from '../core/ports/store.ts';
import type { Logger } from '../kit/logger.ts';
import type { Disagreement } from '../model/disagreement.ts';
import { OrchdError } from '../model/errors.ts';
import type { BrainRecord } from '../model/records.ts';
import type { Opening } from '../model/worker-wire.ts';
import type { Loop } from './loop.ts';

export const WAY_OUT = 'if this store is a restored backup or a copy, start it once with --this-is-a-copy';

export interface DivergenceParts {
  readonly logger: Logger | undefined;
  /** Whether nobody else can open the store. Elsewhere an executor that refuses this brain obeys the next leader. */
  readonly isSoleWriter: boolean;
  readonly fail: (error: Error) => void;
  /** What was found in this life of the brain and before. */
  readonly known: () => readonly Disagreement[];
  /** Keeps a finding: an executor forgets the other copy when it is commanded by this one. */
  readonly keep: (found: Disagreement) => void;
}

export class Divergence {
  readonly #parts: DivergenceParts;
  readonly #found = new Set<string>();
  /** Backends that have refused this brain. */
  readonly #refusedBy = new Set<string>();

  constructor(parts: DivergenceParts) {
    this.#parts = parts;
  }

  static of(store: Store, logger: Logger | undefined, loop: Loop): Divergence {
    return new Divergence({
      logger,
      isSoleWriter: store.capabilities.secondOpener === 'exclusive',
      fail: (error) => loop.fail(error),
      known: () => loop.engine.state.brain?.disagreements ?? [],
      keep: (found) => loop.post({ type: 'disagreement', found }),
    });
  }

  /** What was found so far, one line per backend. */
  get found(): readonly Disagreement[] {
    return this.#parts.known();
  }

  /** An executor refuses this brain: it has obeyed a later opening of the store, or another one of the same epoch. */
  fenced(backend: string): void {
    if (!this.#parts.isSoleWriter) return this.#parts.fail(new OrchdError('FENCED'));
    this.#refusedBy.add(backend);
    this.#note({
      backend,
      what: 'it has obeyed a later opening of this store, and refuses this one',
      isForeign: true,
    });
  }

  isRefusedBy(backend: string): boolean {
    return this.#refusedBy.has(backend);
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
    this.#note({ backend, what: `it has run another body under the token ${token}`, isForeign: false });
  }

  /** Whether an executor was commanded before by an opening that is not in the past of this store. */
  isForeign(backend: string, before: Opening | undefined, brain: BrainRecord | undefined): boolean {
    const known = this.found.find((each) => each.backend === backend && each.isForeign);
    if (known) {
      this.#note(known);
      return true;
    }
    if (before?.nonce === undefined || !brain?.openings || isKnown(before, brain)) return false;
    const what = 'it was commanded by an opening of this store that this copy does not know';
    this.#note({ backend, what, isForeign: true });
    return true;
  }

  /** The first finding of a backend is enough to act on. */
  #note(found: Disagreement): void {
    const { backend, what } = found;
    if (this.#found.has(backend)) return;
    this.#found.add(backend);
    this.#parts.keep(found);
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
