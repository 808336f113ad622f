/** The error of predicted starts, over the last few hundred jobs that had to wait. */

const REMEMBERED = 512;
/** The least wait that an error is divided by: being 10 ms off is no error that anybody notices. */
const SHORTEST_MS = 50;

export class PredictionError {
  readonly #errors = new Float64Array(REMEMBERED);
  /** Number of predictions ever compared. */
  count = 0;
  #late = 0;

  /** Adds one comparison. Both times are measured from the submit; the error is relative to the real wait. */
  note(predictedMs: number, realMs: number): void {
    const error = Math.abs(predictedMs - realMs) / Math.max(realMs, SHORTEST_MS);
    if (!Number.isFinite(error)) return;
    this.#errors[this.count % REMEMBERED] = error;
    this.count++;
    if (realMs > predictedMs) this.#late++;
  }

  get median(): number | undefined {
    return this.quantile(0.5);
  }

  /** Sorts all remembered errors, so call it per scrape and not per job. */
  quantile(q: number): number | undefined {
    const known = Math.min(this.count, REMEMBERED);
    if (known === 0) return undefined;
    const sorted = this.#errors.slice(0, known).sort();
    return sorted[Math.min(known - 1, Math.floor(q * known))];
  }

  /** The share of jobs that started later than predicted; 0.5 means no bias. */
  get lateShare(): number | undefined {
    return this.count === 0 ? undefined : this.#late / this.count;
  }
}
