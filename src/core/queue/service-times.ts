/** Service times of a lane: mean and spread of about the last hundred jobs, in three numbers. */

/** The share of a new measurement once there are many: about the last hundred count. */
const SMOOTHING = 0.01;
/** With fewer measurements the spread is not used. */
const MIN_SAMPLES = 8;
/** A variance below this counts as none; also the least share of the mean that is ever predicted to be left. */
const NEGLIGIBLE = 0.01;
/** If a smaller share of jobs runs this long, the distribution says nothing about them. */
const MIN_TAIL_SHARE = 1e-3;
/** A job that has run longer than this many times the mean is unlike its lane: predict that it takes as long again. */
const OUTLIER_FACTOR = 10;

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

  /** The mean service time; undefined until one was measured. */
  get meanMs(): number | undefined {
    return this.count === 0 ? undefined : this.#mean;
  }

  /** The variance divided by the square of the mean: 0 if all jobs take the same time, 1 for an exponential spread. */
  get spread(): number {
    if (this.count < MIN_SAMPLES || this.#mean === 0) return 0;
    return Math.max(0, this.#square / (this.#mean * this.#mean) - 1);
  }

  /** The expected remaining time of a job that has run for `elapsedMs`, assuming log-normal service times. */
  leftMs(elapsedMs: number): number {
    const mean = this.#mean;
    if (elapsedMs > OUTLIER_FACTOR * mean) return elapsedMs;
    if (this.count < MIN_SAMPLES) return Math.max(mean - elapsedMs, mean / 2);
    const variance = Math.log(1 + this.spread);
    if (variance < NEGLIGIBLE) return Math.max(mean - elapsedMs, mean * NEGLIGIBLE);
    const sigma = Math.sqrt(variance);
    const z = (Math.log(Math.max(elapsedMs, 1)) - Math.log(mean) + variance / 2) / sigma;
    const longer = shareAbove(z);
    // Too few jobs run this long for the distribution to say anything.
    if (longer < MIN_TAIL_SHARE) return this.residualMs;
    return Math.max(mean * NEGLIGIBLE, (mean * shareAbove(z - sigma)) / longer - elapsedMs);
  }

  /** The expected remaining time of a job with an unknown start. Long jobs are more likely to be the running ones. */
  get residualMs(): number {
    return this.count < MIN_SAMPLES ? this.#mean : (this.#mean * (1 + this.spread)) / 2;
  }
}

/** The share of a standard normal distribution above `z`, accurate to a few parts in ten thousand. */
const shareAbove = (z: number): number => 1 / (1 + Math.exp(1.5976 * z + 0.07056 * z ** 3));
