/** How many bytes a server may send that nobody asked for: notifications, garbage, answers to no request. */
import type { Clock } from '../../kit/env/env.ts';

const BURST_BYTES = 4 * 1024 * 1024;
const BYTES_PER_MS = 256;

export class Allowance {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #left = BURST_BYTES;
  #at: number;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    this.#at = clock.monotonic();
  }

  /** False once the server has sent too much. */
  take(bytes: number): boolean {
    const now = this.#clock.monotonic();
    this.#left = Math.min(BURST_BYTES, this.#left + (now - this.#at) * BYTES_PER_MS) - bytes;
    this.#at = now;
    return this.#left >= 0;
  }
}
