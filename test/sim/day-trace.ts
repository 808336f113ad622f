/** Days of requests for several models, each with its own hours: Poisson arrivals from a seed. */
import { seededRandom } from '../crash/steady-env.ts';

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
/** A Monday. */
export const MONDAY = 4 * DAY_MS;

export interface Model {
  readonly name: string;
  readonly vramGb: number;
  readonly slots: number;
  /** The middle of the service times; their logarithm spreads by 0.7. */
  readonly medianMs: number;
  /** Requests per hour at each hour of the day, joined by straight lines. */
  readonly perHour: readonly (readonly [hour: number, rate: number])[];
  /** Share of that load on a weekend. */
  readonly weekend: number;
}

export interface Request {
  readonly at: number;
  readonly model: Model;
  readonly runsMs: number;
}

export function rateAt(model: Model, at: number): number {
  const hour = (at % DAY_MS) / HOUR_MS;
  const points = model.perHour;
  const next = points.findIndex(([from]) => from > hour);
  const [fromHour, from] = points[(next < 0 ? points.length : next) - 1]!;
  const [toHour, to] = next < 0 ? [24, points[0]![1]] : points[next]!;
  const rate = from + ((to - from) * (hour - fromHour)) / (toHour - fromHour);
  const weekday = Math.floor(at / DAY_MS + 4) % 7;
  return weekday === 0 || weekday === 6 ? rate * model.weekend : rate;
}

/** In order of time. Each day is a little busier or quieter than the others. */
export function dayTrace(models: readonly Model[], days: number, seed: number): Request[] {
  const { next } = seededRandom(seed);
  const requests: Request[] = [];
  for (const model of models) {
    const most = 1.3 * Math.max(...model.perHour.map(([, rate]) => rate));
    const moods = Array.from({ length: days + 1 }, () => 0.8 + 0.4 * next());
    for (let at = MONDAY; ; ) {
      at += (-Math.log(1 - next()) / most) * HOUR_MS;
      if (at >= MONDAY + days * DAY_MS) break;
      const deviate = Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
      const mood = moods[Math.floor((at - MONDAY) / DAY_MS)]!;
      if (next() >= (mood * rateAt(model, at)) / most) continue;
      requests.push({ at, model, runsMs: model.medianMs * Math.exp(0.7 * deviate) });
    }
  }
  return requests.sort((a, b) => a.at - b.at);
}
