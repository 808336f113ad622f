/**
 * The demand for one model and its forecast: the arrival rate of the last minutes, the daily pattern, and the mean
 * service time. Fixed memory, no timers.
 */
import { DecayedRate } from '../queue/decayed-rate.ts';
import { BIN_MS, DayProfile, type ProfileRecord } from './day-profile.ts';

const DAY_MS = 86_400_000;
const SHORT_TAU_MS = 5 * 60_000;
/** The time constant with which a departure from the daily pattern is expected to fade. */
const TREND_TAU_MS = 15 * 60_000;
const SERVICE_SMOOTHING = 0.05;
/** A departure based on this many requests counts half: with few requests a gap means nothing. */
const FEW_REQUESTS = 3;
/** If this many usual arrivals have failed to come, today does not follow the daily pattern. */
const MISSED_ARRIVALS = 5;
/** The most instants that a forecast samples. */
const MAX_STEPS = 96;

/** The learned demand as it is persisted. */
export interface DemandPattern {
  readonly v: 1;
  readonly at: number;
  readonly recent: number;
  readonly since: number | undefined;
  readonly serviceMs: number | undefined;
  readonly profile: ProfileRecord;
}

export interface Forecast {
  /** Arrivals expected within the horizon. */
  readonly arrivals: number;
  readonly perSec: number;
  /** The highest rate within the horizon. */
  readonly peakPerSec: number;
  readonly reason: 'nothing-seen' | 'recent' | 'pattern' | 'pattern+recent' | 'pattern-broken';
}

export class Demand {
  readonly #recent = new DecayedRate(SHORT_TAU_MS);
  readonly #profile = new DayProfile();
  #serviceMs: number | undefined;
  /** The last arrival, or the first forecast if there was none. */
  #lastAt: number | undefined;

  /** Ignores a record of another version: the demand is learned anew. */
  static fromRecord(record: DemandPattern): Demand {
    const demand = new Demand();
    if (record.v !== 1) return demand;
    if (record.since !== undefined) demand.#recent.load(record.recent, record.at, record.since);
    demand.#profile.load(record.profile);
    demand.#serviceMs = record.serviceMs;
    return demand;
  }

  /** Counts an arrival; a heavy one may have a higher weight. */
  arrived(now: number, weight = 1): void {
    this.#recent.add(now, weight);
    this.#profile.add(now, weight);
    this.#lastAt = now;
  }

  served(serviceMs: number): void {
    if (!Number.isFinite(serviceMs) || serviceMs < 0) return;
    this.#serviceMs =
      this.#serviceMs === undefined
        ? serviceMs
        : this.#serviceMs + SERVICE_SMOOTHING * (serviceMs - this.#serviceMs);
  }

  /** The smoothed service time; undefined until one was measured. */
  get serviceMs(): number | undefined {
    return this.#serviceMs;
  }

  /**
   * The daily pattern plus the departure of the last minutes from it, which fades with the distance. Without a pattern,
   * or on a day that does not follow it, the recent rate continues.
   */
  forecast(now: number, horizonMs: number): Forecast {
    this.#profile.advance(now);
    const recent = this.#recent.perMs(now);
    if (this.#isSilent(now)) return flat(recent, horizonMs, 'pattern-broken');
    const departs = this.#departure(recent, now);
    const steps = stepsOf(horizonMs);
    let sum = 0;
    let peak = 0;
    for (let step = 0; step < steps; step++) {
      // Sample the middle of each step, so that a long step is represented fairly.
      const ahead = ((step + 0.5) * horizonMs) / steps;
      const pattern = this.#profile.perMs(now + ahead);
      const rate = pattern === undefined ? recent : pattern + departs * Math.exp(-ahead / TREND_TAU_MS);
      sum += Math.max(0, rate);
      peak = Math.max(peak, rate);
    }
    const perMs = sum / steps;
    const reason = reasonOf(perMs, departs, this.#profile.perMs(now) !== undefined);
    return { arrivals: perMs * horizonMs, perSec: perMs * 1000, peakPerSec: peak * 1000, reason };
  }

  toRecord(now: number): DemandPattern {
    this.#profile.advance(now);
    return {
      v: 1,
      at: now,
      recent: this.#recent.since === undefined ? 0 : this.#recent.sum(now),
      since: this.#recent.since,
      serviceMs: this.#serviceMs,
      profile: this.#profile.toRecord(),
    };
  }

  /** How far the recent rate is above or below the usual range around now. */
  #departure(recent: number, now: number): number {
    const least = this.#profile.usualPerMs(now, 'least');
    const most = this.#profile.usualPerMs(now, 'most');
    if (least === undefined || most === undefined) return 0;
    const beyond = recent - Math.min(most, Math.max(least, recent));
    const requests = Math.max(recent, least) * SHORT_TAU_MS;
    return beyond * (requests / (requests + FEW_REQUESTS));
  }

  /** Whether many usual arrivals have failed to come since the last one: on a holiday, say. */
  #isSilent(now: number): boolean {
    this.#lastAt ??= now;
    const from = Math.max(this.#lastAt, now - DAY_MS);
    const steps = stepsOf(now - from);
    let missed = 0;
    for (let step = 0; step < steps; step++) {
      const at = from + ((step + 0.5) * (now - from)) / steps;
      missed += this.#profile.usualPerMs(at, 'least') ?? 0;
    }
    return (missed * (now - from)) / steps >= MISSED_ARRIVALS;
  }
}

const stepsOf = (ms: number): number => Math.min(MAX_STEPS, Math.max(1, Math.ceil((2 * ms) / BIN_MS)));

const flat = (perMs: number, horizonMs: number, reason: Forecast['reason']): Forecast => ({
  arrivals: perMs * horizonMs,
  perSec: perMs * 1000,
  peakPerSec: perMs * 1000,
  reason,
});

function reasonOf(rate: number, departs: number, hasPattern: boolean): Forecast['reason'] {
  if (rate === 0) return 'nothing-seen';
  if (!hasPattern) return 'recent';
  return departs > 0 ? 'pattern+recent' : 'pattern';
}
