/** Growing pauses between tries, of random length, so that many consumers do not come back at once. */
import { type BackoffPolicy, backoffMs } from '../kit/backoff.ts';
import type { Random } from '../kit/env/env.ts';

const POLICY: BackoffPolicy = { baseDelayMs: 100, maxDelayMs: 5000, jitter: 0.5 };

export class Pauses {
  readonly #random: Random;
  #count = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  get count(): number {
    return this.#count;
  }

  next(): number {
    this.#count += 1;
    return backoffMs(POLICY, this.#count, this.#random.next());
  }

  reset(): void {
    this.#count = 0;
  }
}
