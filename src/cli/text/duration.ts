/** Durations and times as text, rounded for people. */
const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** A negative duration is shown as 0 ms: the clocks of two machines differ a little. */
export function durationText(ms: number): string {
  const positive = Math.max(0, ms);
  if (positive < 1000) return `${Math.round(positive)} ms`;
  if (positive < 10 * SECOND_MS) return `${(Math.floor(positive / 100) / 10).toFixed(1)} s`;
  if (positive < 2 * MINUTE_MS) return `${Math.floor(positive / SECOND_MS)} s`;
  if (positive < 2 * HOUR_MS) return `${Math.floor(positive / MINUTE_MS)} min`;
  if (positive < 2 * DAY_MS) return `${Math.floor(positive / HOUR_MS)} h`;
  return `${Math.floor(positive / DAY_MS)} d`;
}

export const instantText = (at: number): string =>
  new Date(at).toISOString().replace('T', ' ').replace('Z', ' UTC');
