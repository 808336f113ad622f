/**
 * Moves the states of waits out of memory when they take too much of it: a run may wait for days, and nothing needs its
 * state before its next step. The text becomes a blob, which the record of the job names from then on.
 */

import type { StoredState } from '../core/attempts/waiting.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { type Bodies, ownerOf } from './bodies.ts';
import type { Loop } from './loop.ts';

/** Characters of states that stay in memory. */
export const KEPT_STATE_CHARS = 4 * 2 ** 20;
/** States that are written together. */
const PER_COMMIT = 256;
/** States that one search looks at: most are of waiting jobs, the others are left where they are. */
const LOOK_AT = 4096;

export interface WaitStatesParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly bodies: Bodies;
  readonly logger: Logger | undefined;
}

export class WaitStates {
  readonly #parts: WaitStatesParts;
  #isRunning = false;

  constructor(parts: WaitStatesParts) {
    this.#parts = parts;
  }

  /** What fails now is tried again with the next sweep. */
  async sweep(): Promise<void> {
    if (this.#isRunning || !this.#isTooMuch()) return;
    this.#isRunning = true;
    try {
      while (this.#isTooMuch() && (await this.#storeOldest())) {
        // Goes on until few enough are left.
      }
    } catch (error) {
      const { loop, logger } = this.#parts;
      if (!loop.failure)
        logger?.warn('the states of waiting jobs stay in memory', { reason: describeThrown(error) });
    } finally {
      this.#isRunning = false;
    }
  }

  #isTooMuch(): boolean {
    const { engine, loop } = this.#parts;
    return !loop.failure && !engine.state.full && engine.state.waitStates.chars > KEPT_STATE_CHARS;
  }

  /** Returns false where there is nothing to move. */
  async #storeOldest(): Promise<boolean> {
    const { loop, bodies } = this.#parts;
    const states = await Promise.all(
      this.#oldest().map(async ({ uid, step, text, owner }): Promise<StoredState> => {
        return { uid, step, state: await bodies.storeSealed(text, owner) };
      }),
    );
    if (states.length === 0) return false;
    await loop.ask({ type: 'states-stored', states });
    return true;
  }

  #oldest() {
    const { jobs, waitStates } = this.#parts.engine.state;
    const found = [];
    let looked = 0;
    for (const [uid, { text }] of waitStates.entries()) {
      if (found.length >= PER_COMMIT || looked++ >= LOOK_AT) break;
      const entry = jobs.get(uid);
      if (entry?.job.state !== 'waiting') continue;
      found.push({ uid, step: entry.job.wait?.step ?? 0, text, owner: ownerOf(entry.ask) });
    }
    return found;
  }
}
