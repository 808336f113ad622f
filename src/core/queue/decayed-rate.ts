/** The recent rate of events: the weight of an event decays exponentially with its age. No timers, three numbers. */
const SET_BACK_MS = 60_000;

export class DecayedRate {
  readonly tauMs: number;
  #sum = 0;
  #at: number | undefined;
  #since: number | undefined;

  /** An event of `tauMs` ago counts for about a third. */
  constructor(tauMs: number) {
    this.tauMs = tauMs;
  }

  add(now: number, weight = 1): void {
    this.#decay(now);
    this.#sum += weight;
  }

  /** Events per millisecond. */
  perMs(now: number): number {
    if (this.#at === undefined || this.#since === undefined) return 0;
    const sum = this.#sum * Math.exp(-Math.max(0, now - this.#at) / this.tauMs);
    // Divide by the time observed so far, but at least tau / 5: a rate over a shorter time would be noise.
    const observed = Math.max(now - this.#since, this.tauMs / 5);
    return sum / (this.tauMs * (1 - Math.exp(-observed / this.tauMs)));
  }

  /** The decayed sum, to be persisted and passed to `load` later. */
  sum(now: number): number {
    this.#decay(now);
    return this.#sum;
  }

  load(sum: number, at: number, since: number): void {
    this.#sum = sum;
    this.#at = at;
    this.#since = since;
  }

  get since(): number | undefined {
    return this.#since;
  }

  #decay(now: number): void {
    this.#since ??= now;
    if (this.#at !== undefined && now > this.#at) this.#sum *= Math.exp(-(now - this.#at) / this.tauMs);
    // A little earlier is another order of arrival; much earlier is brain time that was set back.
    const isSetBack = this.#at !== undefined && now < this.#at - SET_BACK_MS;
    this.#at = isSetBack ? now : Math.max(this.#at ?? now, now);
  }
}
