/**
 * The daily pattern of arrivals: the mean number per quarter of an hour, separately for working days and weekends. It is
 * learned continuously and has a fixed size. Days are UTC days, which only shifts the pattern.
 */

const DAY_MS = 86_400_000;
const BINS = 96;
export const BIN_MS = DAY_MS / BINS;
/** The weight of a new day: the pattern follows a change within days, and a single odd day fades. */
const SMOOTHING = 1 / 3;
/** A bin observed for a smaller share of its time is not counted. */
const MIN_OBSERVED = 0.5;
/** The most empty bins that are closed at once, after a long time without a call. */
const MAX_EMPTY_BINS = 14 * BINS;

const WORKDAY = 0;
const WEEKEND = 1;

export interface ProfileRecord {
  readonly means: readonly (readonly number[])[];
  readonly days: readonly (readonly number[])[];
}

export class DayProfile {
  /** The mean arrivals per bin, and the number of days observed per bin, each by kind of day. */
  readonly #means = [new Float64Array(BINS), new Float64Array(BINS)] as const;
  readonly #days = [new Uint16Array(BINS), new Uint16Array(BINS)] as const;
  /** The bin that is being counted, numbered from 1970. */
  #bin: number | undefined;
  /** The arrivals in the current bin. */
  #count = 0;
  /** Since when the current bin has been observed. */
  #since = 0;

  add(now: number, weight: number): void {
    this.advance(now);
    this.#count += weight;
  }

  /** Closes the bins that have ended; those without a call since are closed with 0 arrivals. */
  advance(now: number): void {
    const bin = Math.floor(now / BIN_MS);
    if (this.#bin === undefined) {
      this.#bin = bin;
      this.#since = now;
      return;
    }
    if (bin <= this.#bin) return;
    this.#close(this.#bin, this.#count, this.#since);
    for (let at = Math.max(this.#bin + 1, bin - MAX_EMPTY_BINS); at < bin; at++)
      this.#close(at, 0, at * BIN_MS);
    this.#bin = bin;
    this.#count = 0;
    this.#since = bin * BIN_MS;
  }

  /** The expected arrivals per millisecond at an instant; undefined if this time of day was not observed yet. */
  perMs(at: number): number | undefined {
    const bin = Math.floor(at / BIN_MS);
    let sum = 0;
    let weight = 0;
    // The neighbouring bins smooth a pattern of few days, and show a change a little before it comes.
    for (const [step, share] of NEIGHBOURS) {
      const mean = this.#mean(bin + step);
      if (mean === undefined) continue;
      sum += share * mean;
      weight += share;
    }
    return weight < 0.5 ? undefined : sum / weight / BIN_MS;
  }

  /**
   * The lowest or highest usual rate around an instant: arrivals a quarter of an hour early or late still count as
   * usual. Undefined if this time of day was not observed yet.
   */
  usualPerMs(at: number, bound: 'least' | 'most'): number | undefined {
    const bin = Math.floor(at / BIN_MS);
    let found: number | undefined;
    for (const [step] of NEIGHBOURS) {
      const mean = this.#mean(bin + step);
      if (mean === undefined) continue;
      if (found === undefined || (bound === 'least' ? mean < found : mean > found)) found = mean;
    }
    return found === undefined ? undefined : found / BIN_MS;
  }

  toRecord(): ProfileRecord {
    return {
      means: this.#means.map((means) => Array.from(means, (mean) => Math.round(mean * 1000) / 1000)),
      days: this.#days.map((days) => Array.from(days)),
    };
  }

  /** Ignores a record of another shape. */
  load(record: ProfileRecord): void {
    for (const kind of [WORKDAY, WEEKEND] as const) {
      const means = record.means[kind];
      const days = record.days[kind];
      if (means?.length !== BINS || days?.length !== BINS) continue;
      this.#means[kind].set(means);
      this.#days[kind].set(days);
    }
  }

  /** The mean of a bin; that of the other kind of day if this kind was not observed yet. */
  #mean(bin: number): number | undefined {
    const kind = kindOf(bin);
    const at = ((bin % BINS) + BINS) % BINS;
    for (const which of [kind, kind === WORKDAY ? WEEKEND : WORKDAY] as const) {
      if (this.#days[which][at]! > 0) return this.#means[which][at];
    }
    return undefined;
  }

  #close(bin: number, count: number, since: number): void {
    const observed = ((bin + 1) * BIN_MS - since) / BIN_MS;
    if (observed < MIN_OBSERVED) return;
    const kind = kindOf(bin);
    const at = ((bin % BINS) + BINS) % BINS;
    const days = this.#days[kind];
    const means = this.#means[kind];
    if (days[at]! < 0xffff) days[at]!++;
    means[at]! += Math.max(1 / days[at]!, SMOOTHING) * (count / observed - means[at]!);
  }
}

const NEIGHBOURS = [
  [-1, 0.25],
  [0, 0.5],
  [1, 0.25],
] as const;

/** 1970-01-01, day 0, was a Thursday, weekday 4. */
function kindOf(bin: number): typeof WORKDAY | typeof WEEKEND {
  const weekday = (((Math.floor(bin / BINS) + 4) % 7) + 7) % 7;
  return weekday === 0 || weekday === 6 ? WEEKEND : WORKDAY;
}
