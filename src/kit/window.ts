/**
 * The windows of a budget: the hours, days, weeks and months of a time zone. The windows of a kind and zone cover time
 * without gap or overlap, whatever is done to the clocks of the zone:
 *
 * - An hour begins when the clock shows a full hour. The hour that daylight saving repeats is therefore two windows of one
 *   hour each, and the one that it leaves out is none. Only where the clocks change by a part of an hour (Lord Howe
 *   Island, or a country that moves to another offset) is an hour shorter or longer, by that part.
 * - A day begins at the first instant at which the clock shows its date: at midnight, or where the clock goes on if it
 *   leaves midnight out. Days with a change of the clock have 23 or 25 hours. If the clock is set back over midnight, the
 *   day that has begun goes on: no day begins twice. A date that a zone leaves out has no window.
 * - Weeks begin with the first instant of a Monday, months with that of their first day.
 */

/** Milliseconds since 1970; `end` is the first instant of the next window. */
export interface Window {
  readonly start: number;
  readonly end: number;
}

export type WindowKind = 'hour' | 'day' | 'week' | 'month';

const HOUR_MS = 3_600_000;

/** Whether it is the name of a time zone, such as `Europe/Berlin` or `UTC`. An offset such as `+02:00` is none. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    // The first Intl.DateTimeFormat of a process takes some 20 ms, in which nothing else is answered.
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name);
    return true;
  } catch {
    return false;
  }
}

/** The window that contains the instant. It takes some microseconds: callers keep it until its `end`. */
export function windowAt(kind: WindowKind, timeZone: string, instant: number): Window {
  const at = Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(timeZone);
  if (kind === 'hour') return { start: hourStart(at), end: hourEnd(at) };
  let first = firstDate(kind, at.toPlainDate());
  let next = first.add(LENGTHS[kind]);
  let end = startOf(next, timeZone);
  // The clock has been set back over midnight: it shows the last date again, but the next window has begun.
  while (end <= instant) {
    first = next;
    next = first.add(LENGTHS[kind]);
    end = startOf(next, timeZone);
  }
  return { start: startOf(first, timeZone), end };
}

/** The first instant of a date such as `2026-03-29`; undefined for a text that is no date. */
export function dayStart(date: string, timeZone: string): number | undefined {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) return undefined;
  try {
    return startOf(Temporal.PlainDate.from(date), timeZone);
  } catch {
    return undefined;
  }
}

/** The date of the day that begins at this instant. */
export const dateOf = (start: number, timeZone: string): string =>
  Temporal.Instant.fromEpochMilliseconds(start).toZonedDateTimeISO(timeZone).toPlainDate().toString();

const LENGTHS = { day: { days: 1 }, week: { days: 7 }, month: { months: 1 } };

function firstDate(kind: 'day' | 'week' | 'month', date: Temporal.PlainDate): Temporal.PlainDate {
  if (kind === 'week') return date.subtract({ days: date.dayOfWeek - 1 });
  return kind === 'month' ? date.with({ day: 1 }) : date;
}

const startOf = (date: Temporal.PlainDate, timeZone: string): number =>
  date.toZonedDateTime(timeZone).epochMilliseconds;

/** The latest instant, not after `at`, at which the clock shows a full hour. */
function hourStart(at: Temporal.ZonedDateTime): number {
  const start = at.epochMilliseconds - msPastHour(at);
  // A change at this very instant counts too, and the question for it excludes the instant itself.
  const change = at.add({ milliseconds: 1 }).getTimeZoneTransition('previous');
  if (!change || change.epochMilliseconds <= start) return start;
  return hourStart(change.subtract({ milliseconds: 1 }));
}

/** The earliest instant after `at` at which the clock shows a full hour. */
function hourEnd(at: Temporal.ZonedDateTime): number {
  const end = at.epochMilliseconds - msPastHour(at) + HOUR_MS;
  const change = at.getTimeZoneTransition('next');
  if (!change || change.epochMilliseconds > end) return end;
  return msPastHour(change) === 0 ? change.epochMilliseconds : hourEnd(change);
}

const msPastHour = (at: Temporal.ZonedDateTime): number =>
  at.minute * 60_000 + at.second * 1000 + at.millisecond;
