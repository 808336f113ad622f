/**
 * Those who hand in batch work and wait until it is durable. Who was just told usually comes with the next job: where
 * many were, the next frame waits a moment for as many, since one flush for all costs less than one for the first and
 * one for the rest. Anything else that is to be written ends the wait.
 */

/** Fewer are not worth a wait. */
const MANY = 16;
/** They come back at once or not at all. */
const MAX_DELAY_MS = 2;

export class Callers {
  #awaited = 0;
  #until = 0;

  /** So many have been told by now. */
  told(count: number, now: number): void {
    this.#awaited = count < MANY ? 0 : count;
    this.#until = now + MAX_DELAY_MS;
  }

  came(count: number): void {
    this.#awaited -= count;
  }

  /** For how long a frame should wait for more of them. */
  waitMs(now: number): number {
    return this.#awaited > 0 ? Math.max(0, this.#until - now) : 0;
  }
}
