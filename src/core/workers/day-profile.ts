/**
 * The pattern of a day, learned while it is lived: how many arrivals each quarter of an hour brings, apart for
 * working days and weekends. Fixed size; the day is that of UTC, which only shifts the pattern.
 */

const DAY_MS = 86_400_000;
const BINS = 96;
export const BIN_MS = DAY_MS / BINS;
/** A new day counts for a third: the pattern follows a change within days and forgets a single odd one. */
const SMOOTHING = 1 / 3;
/** A quarter of an hour that was watched for less than half of it says too little. */
const LEAST_WATCHED = 0.5;
/** After a longer silence only this much is written as silence. */
const MOST_CLOSED = 14 * BINS;

const WORKDAY = 0;
const WEEKEND = 1;

export interface ProfileRecord {
  readonly means: readonly (readonly number[])[];
  readonly days: readonly (readonly number[])[];
}

export class DayProfile {
  /** Arrivals for each kind of day and bin, and how many such days were seen. */
  readonly #means = [new Float64Array(BINS), new Float64Array(BINS)] as const;
  readonly #days = [new Uint16Array(BINS), new Uint16Array(BINS)] as const;
  /** The bin that is being counted, numbered from the epoch. */
  #bin: number | undefined;
  #count = 0;
  #since = 0;

  add(now: number, weight: number): void {
    this.advance(now);
    this.#count += weight;
  }

  /** Closes the bins that have ended; those in which nothing came are closed with nothing. */
  advance(now: number): void {
    const bin = Math.floor(now / BIN_MS);
    if (this.#bin === undefined) {
      this.#bin = bin;
      this.#since = now;
      return;
    }
    if (bin <= this.#bin) return;
    this.#close(this.#bin, this.#count, this.#since);
    for (let at = Math.max(this.#bin + 1, bin - MOST_CLOSED); at < bin; at++) this.#close(at, 0, at * BIN_MS);
    this.#bin = bin;
    this.#count = 0;
    this.#since = bin * BIN_MS;
  }

  /** Arrivals per millisecond at an instant; undefined where no such quarter of an hour was seen yet. */
  perMs(at: number): number | undefined {
    const bin = Math.floor(at / BIN_MS);
    let sum = 0;
    let weight = 0;
    // Neighbours smooth what few days leave ragged, and see an edge a little before it comes.
    for (const [step, share] of NEIGHBOURS) {
      const mean = this.#mean(bin + step);
      if (mean === undefined) continue;
      sum += share * mean;
      weight += share;
    }
    return weight < 0.5 ? undefined : sum / weight / BIN_MS;
  }

  /**
   * The least and the most that is usual around an instant: what comes a quarter of an hour early or late is
   * still as usual. Undefined where no such time was seen yet.
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

  /** A record of another shape teaches nothing. */
  load(record: ProfileRecord): void {
    for (const kind of [WORKDAY, WEEKEND] as const) {
      const means = record.means[kind];
      const days = record.days[kind];
      if (means?.length !== BINS || days?.length !== BINS) continue;
      this.#means[kind].set(means);
      this.#days[kind].set(days);
    }
  }

  /** Where no day of this kind was seen yet, the other kind is better than nothing. */
  #mean(bin: number): number | undefined {
    const kind = kindOf(bin);
    const at = ((bin % BINS) + BINS) % BINS;
    for (const which of [kind, kind === WORKDAY ? WEEKEND : WORKDAY] as const) {
      if (this.#days[which][at]! > 0) return this.#means[which][at];
    }
    return undefined;
  }

  #close(bin: number, count: number, since: number): void {
    const watched = ((bin + 1) * BIN_MS - since) / BIN_MS;
    if (watched < LEAST_WATCHED) return;
    const kind = kindOf(bin);
    const at = ((bin % BINS) + BINS) % BINS;
    const days = this.#days[kind];
    const means = this.#means[kind];
    if (days[at]! < 0xffff) days[at]!++;
    means[at]! += Math.max(1 / days[at]!, SMOOTHING) * (count / watched - means[at]!);
  }
}

const NEIGHBOURS = [
  [-1, 0.25],
  [0, 0.5],
  [1, 0.25],
] as const;

/** The epoch began on a Thursday. */
function kindOf(bin: number): typeof WORKDAY | typeof WEEKEND {
  const weekday = (((Math.floor(bin / BINS) + 4) % 7) + 7) % 7;
  return weekday === 0 || weekday === 6 ? WEEKEND : WORKDAY;
}
