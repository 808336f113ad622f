/** Tells whether it is the part of a day that somebody named. */
import type { DayTime } from '../model/route.ts';

/** Whether the clock of the time zone shows a time of this part of the day. */
export function isWithin({ from, to, timeZone }: DayTime, instant: number): boolean {
  const at = Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(timeZone);
  const minute = at.hour * 60 + at.minute;
  const [first, end] = [minuteOf(from), minuteOf(to)];
  return first < end ? minute >= first && minute < end : minute >= first || minute < end;
}

function minuteOf(text: string): number {
  const [hour = 0, minute = 0] = text.split(':').map(Number);
  return hour * 60 + minute;
}
