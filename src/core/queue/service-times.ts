/** How long jobs of a lane run: mean and spread of the last hundred or so, in a few numbers. */

/** Share of one new measurement once there are many: the mean of a hundred is steadier than that of ten. */
const SMOOTHING = 0.01;
/** Fewer than this say nothing about the spread. */
const ENOUGH = 8;
/** A spread below this is none. */
const ALL_THE_SAME = 0.01;
const OUT_OF_SIGHT = 1e-3;
/** One that has run for so many times the mean is of another kind: as long again is as good a guess as any. */
const UNLIKE_OTHERS = 10;

export class ServiceTimes {
  count = 0;
  #mean = 0;
  #square = 0;

  add(ms: number): void {
    this.count++;
    const share = Math.max(1 / this.count, SMOOTHING);
    this.#mean += share * (ms - this.#mean);
    this.#square += share * (ms * ms - this.#square);
  }

  /** Undefined until one was measured. */
  get meanMs(): number | undefined {
    return this.count === 0 ? undefined : this.#mean;
  }

  /** Variance in units of the mean squared: 0 where all take the same time, 1 where nothing can be foretold. */
  get spread(): number {
    if (this.count < ENOUGH || this.#mean === 0) return 0;
    return Math.max(0, this.#square / (this.#mean * this.#mean) - 1);
  }

  /** What is left of a job that has run for so long, if the logarithms of the times are spread evenly about. */
  leftMs(elapsedMs: number): number {
    const mean = this.#mean;
    if (elapsedMs > UNLIKE_OTHERS * mean) return elapsedMs;
    if (this.count < ENOUGH) return Math.max(mean - elapsedMs, mean / 2);
    const variance = Math.log(1 + this.spread);
    if (variance < ALL_THE_SAME) return Math.max(mean - elapsedMs, mean * ALL_THE_SAME);
    const sigma = Math.sqrt(variance);
    const z = (Math.log(Math.max(elapsedMs, 1)) - Math.log(mean) + variance / 2) / sigma;
    const longer = shareAbove(z);
    // So long that nothing is known of such jobs.
    if (longer < OUT_OF_SIGHT) return this.residualMs;
    return Math.max(mean * ALL_THE_SAME, (mean * shareAbove(z - sigma)) / longer - elapsedMs);
  }

  /** What is left of a job that runs since nobody knows when: long ones are met more often than short ones. */
  get residualMs(): number {
    return this.count < ENOUGH ? this.#mean : (this.#mean * (1 + this.spread)) / 2;
  }
}

/** Which share of a normal distribution lies above `z`; good to a few parts in ten thousand. */
const shareAbove = (z: number): number => 1 / (1 + Math.exp(1.5976 * z + 0.07056 * z ** 3));
