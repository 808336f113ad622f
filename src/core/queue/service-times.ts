/** How long jobs of a lane run: mean and spread of the last hundred or so, in three numbers. */

/** Share of one new measurement once there are many: the mean of a hundred is steadier than that of ten. */
const SMOOTHING = 0.01;
/** Fewer than this say nothing about the spread. */
const ENOUGH = 8;

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

  /** What is left of a job that runs since nobody knows when: long ones are met more often than short ones. */
  get residualMs(): number {
    return this.count < ENOUGH ? this.#mean : (this.#mean * (1 + this.spread)) / 2;
  }
}
