/**
 * Pauses a backend whose provider fails again and again. After `failures` failed executions in a row the backend gets no
 * job for `pauseMs`; then one job at a time tries it. A success ends the pause, another failure doubles it.
 */
import type { BreakerPolicy } from '../settings.ts';

export class Breaker {
  /** Failures since the last success. */
  #failures = 0;
  /** Pauses since the last success. */
  #pauses = 0;

  /** The backend was paused and has not succeeded since: only one job at a time may try it. */
  get isOnTrial(): boolean {
    return this.#pauses > 0;
  }

  /** Returns how long the backend is paused after this failure; undefined if it is not. */
  failed({ failures, pauseMs, maxPauseMs }: BreakerPolicy): number | undefined {
    this.#failures++;
    if (failures === 0 || (!this.isOnTrial && this.#failures < failures)) return undefined;
    this.#pauses++;
    return Math.min(maxPauseMs, pauseMs * 2 ** Math.min(this.#pauses - 1, 30));
  }

  succeeded(): void {
    this.#failures = 0;
    this.#pauses = 0;
  }
}
