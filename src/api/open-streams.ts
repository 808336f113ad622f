/** How many streams each caller has open: one count for all the ways to ask for one. */
import { OrchdError } from '../model/errors.ts';
import type { Identity } from '../wire/tokens.ts';

const RETRY_AFTER_MS = 1000;

export class OpenStreams {
  readonly #most: number;
  readonly #open = new Map<string, number>();

  constructor(mostPerCaller: number) {
    this.#most = mostPerCaller;
  }

  /** Counts one more, or refuses it. What is returned gives it back, however often it is called. */
  take({ tenant, name }: Identity): () => void {
    const who = `${tenant}~${name}`;
    const open = this.#open.get(who) ?? 0;
    if (open >= this.#most) {
      throw new OrchdError('TOO_MANY_STREAMS', undefined, {
        retryAfterMs: RETRY_AFTER_MS,
        policyLabel: 'streams',
      });
    }
    this.#open.set(who, open + 1);
    let isOpen = true;
    return () => {
      if (isOpen) this.#giveBack(who);
      isOpen = false;
    };
  }

  #giveBack(who: string): void {
    const left = (this.#open.get(who) ?? 1) - 1;
    if (left === 0) this.#open.delete(who);
    else this.#open.set(who, left);
  }
}
