/** Counts the open streams of each caller, over all routes that stream, and refuses more than the limit. */
import { OrchdError } from '../model/errors.ts';
import type { Identity } from '../wire/tokens.ts';

const RETRY_AFTER_MS = 1000;

export class OpenStreams {
  readonly #maxPerCaller: number;
  readonly #open = new Map<string, number>();

  constructor(maxPerCaller: number) {
    this.#maxPerCaller = maxPerCaller;
  }

  /** Counts one more stream, or throws. The returned function releases it; calling that twice releases it once. */
  take({ tenant, name }: Identity): () => void {
    const caller = `${tenant}~${name}`;
    const open = this.#open.get(caller) ?? 0;
    if (open >= this.#maxPerCaller) {
      throw new OrchdError('TOO_MANY_STREAMS', undefined, {
        retryAfterMs: RETRY_AFTER_MS,
        policyLabel: 'streams',
      });
    }
    this.#open.set(caller, open + 1);
    let isOpen = true;
    return () => {
      if (isOpen) this.#release(caller);
      isOpen = false;
    };
  }

  #release(caller: string): void {
    const left = (this.#open.get(caller) ?? 1) - 1;
    if (left === 0) this.#open.delete(caller);
    else this.#open.set(caller, left);
  }
}
