/** How far predicted starts were from the real ones, over the last few hundred jobs that had to wait. */

const REMEMBERED = 512;
/** A real wait counts for at least this much: being 10 ms off is no error that anybody could notice. */
const SHORTEST_MS = 50;

export class PredictionError {
  readonly #errors = new Float64Array(REMEMBERED);
  /** All that were ever noted. */
  count = 0;
  #late = 0;

  /** Relative to the real wait. Instants of the same clock, both from the submit. */
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

  /** Sorts what is remembered: for those who read metrics, not for every job. */
  quantile(q: number): number | undefined {
    const known = Math.min(this.count, REMEMBERED);
    if (known === 0) return undefined;
    const sorted = this.#errors.slice(0, known).sort();
    return sorted[Math.min(known - 1, Math.floor(q * known))];
  }

  /** Which share started later than was told; a half is right. */
  get lateShare(): number | undefined {
    return this.count === 0 ? undefined : this.#late / this.count;
  }
}
