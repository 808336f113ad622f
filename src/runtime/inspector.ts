/** Asks executors about attempts, and judges what their answers, and their silence about a token, prove. */
import type { Finding } from '../core/attempts/reports.ts';
import type { Engine } from '../core/engine/engine.ts';
import { type Backend, type Inspection, isOtherBody } from '../core/ports/backend.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { commanderOf } from '../core/state/state.ts';
import type { AttemptRecord } from '../model/records.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Divergence } from './divergence.ts';
import type { Loop } from './loop.ts';
import type { Outcomes } from './outcomes.ts';

export interface InspectorParts {
  readonly engine: Engine;
  readonly loop: Pick<Loop, 'post'>;
  readonly divergence: Divergence;
  readonly outcomes: Outcomes;
  /** Brain time, in which attempts are dated. */
  readonly clock: Pick<BrainClock, 'now'>;
}

/** The part of an answer that concerns the executor's memory. */
type Answered = Pick<Inspection, 'registry' | 'openingBefore'>;
type Remembered = Pick<Inspection, 'rememberedSince' | 'executorNow'>;

export class Inspector {
  readonly #parts: InspectorParts;

  constructor(parts: InspectorParts) {
    this.#parts = parts;
  }

  async inspect(tokens: readonly string[], backend: Backend): Promise<Inspection> {
    const who = commanderOf(this.#parts.engine.state);
    const answer = this.#parts.divergence.answerOf(backend.info.name, backend.inspect(tokens, who));
    return this.inBrainTime(await answer);
  }

  /**
   * An answer that has just come, with `rememberedSince` in the time of this brain: the clock of another machine may be
   * wrong. The time on the way makes it too late rather than too early, which can only cost certainty.
   */
  inBrainTime<T extends Remembered>(answer: T): T {
    const { executorNow, rememberedSince } = answer;
    if (executorNow === undefined) return answer;
    return { ...answer, rememberedSince: rememberedSince + this.#parts.clock.now() - executorNow };
  }

  /**
   * Records that a backend has answered, and its registry, by which later attempts are judged. False for an executor that
   * a later opening of this store has commanded: what it says is about attempts that this copy does not know.
   */
  isOwn(backend: Backend, { registry, openingBefore }: Answered): boolean {
    const { divergence, engine, loop } = this.#parts;
    const { name } = backend.info;
    if (divergence.isForeign(name, openingBefore, engine.state.brain)) {
      loop.post({ type: 'reachable', name, up: false });
      return false;
    }
    const known = engine.queue.fleet.backends.get(name);
    // A worker that was removed since the call must not come back by its late answer.
    if (!known) return true;
    if (known.info.registry !== registry) {
      loop.post({ type: 'backend', info: { ...backend.info, registry } });
    } else if (!known.up) loop.post({ type: 'reachable', name, up: true });
    return true;
  }

  async finding(entry: JobEntry, attempt: AttemptRecord, inspection: Inspection): Promise<Finding> {
    const status = inspection.known.get(entry.token);
    if (status && this.isOtherBody(entry, attempt, status.hash)) return { is: 'conflict' };
    if (status?.is === 'running') return { is: 'running' };
    if (status?.is === 'forgotten') return this.#parts.outcomes.forgotten(status.why, entry.ask);
    if (status)
      return { is: 'ended', outcome: await this.#parts.outcomes.recorded(status.outcome, entry.ask) };
    // An executor that accepted the token and no longer lists it has forgotten it, however far its memory reaches back.
    const neverHadIt = remembers(inspection, attempt) && attempt.acceptedAt === undefined;
    if (neverHadIt) return { is: 'absent' };
    const { info } = this.#parts.engine.queue.fleet.backends.get(attempt.backend) ?? {};
    const isSame = inspection.registry === attempt.registry;
    const isGone = info?.endsWithProcess === true && !isSame;
    const mayArrive = isSame && attempt.acceptedAt === undefined;
    return { is: 'forgotten', ...(isGone && { isGone }), ...(mayArrive && { mayArrive }) };
  }

  /** Whether the executor ran another body under this token. An attempt that it accepted is known to be ours. */
  isOtherBody(entry: JobEntry, attempt: AttemptRecord, hash: string | undefined): boolean {
    if (!isOtherBody(hash, entry.ask.hash) || attempt.acceptedAt !== undefined) return false;
    this.#parts.divergence.conflict(attempt.backend, entry.token);
    return true;
  }
}

/** Whether an executor's silence about a token means that it never had it. */
export function remembers(
  memory: { readonly registry: string; readonly rememberedSince: number },
  attempt: AttemptRecord,
): boolean {
  return memory.registry === attempt.registry && memory.rememberedSince <= attempt.at;
}
