/**
 * Decides how long the next frame waits for more batch submits. A caller whose batch job has just become durable usually
 * submits its next job at once. After a frame that answered many such callers, the next frame therefore waits a moment
 * until as many jobs have arrived: one flush for all costs less than one for the first job and one for the rest.
 * The writer ends the wait as soon as anything else is to be written.
 */

/** After a frame with fewer batch jobs than this, the next frame does not wait. */
const MIN_JOBS = 16;
const MAX_DELAY_MS = 2;

export class CommitDelay {
  /** Number of batch jobs that are expected before the next frame is written. */
  #expected = 0;
  #until = 0;

  /** The callers of this many batch jobs have just been answered. */
  committed(count: number, now: number): void {
    this.#expected = count < MIN_JOBS ? 0 : count;
    this.#until = now + MAX_DELAY_MS;
  }

  /** This many batch jobs were appended for the next frame. */
  appended(count: number): void {
    this.#expected -= count;
  }

  /** How long the next frame should still wait. */
  waitMs(now: number): number {
    return this.#expected > 0 ? Math.max(0, this.#until - now) : 0;
  }
}
