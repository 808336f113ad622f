/** Durations as people write them: a number and its unit. */

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
/** Longer than any wait that makes sense; a mistyped number is noticed. */
const MAX_MS = 3.2e10;

const FORM = /^(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)$/;

/** Milliseconds; undefined for a text that is no duration, and for more than a year. */
export function parseDuration(text: string): number | undefined {
  const [, number, unit] = FORM.exec(text.trim()) ?? [];
  if (number === undefined || unit === undefined) return undefined;
  const ms = Math.round(Number(number) * (UNIT_MS[unit] as number));
  return ms <= MAX_MS ? ms : undefined;
}
