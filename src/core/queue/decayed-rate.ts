/** How often something happens of late: each event counts for less as it gets older. No timers, three numbers. */
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
    // What was not watched yet cannot have counted; too short a watch says nothing.
    const watched = Math.max(now - this.#since, this.tauMs / 5);
    return sum / (this.tauMs * (1 - Math.exp(-watched / this.tauMs)));
  }

  /** For a record that outlives the process. */
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
    this.#at = Math.max(this.#at ?? now, now);
  }
}
