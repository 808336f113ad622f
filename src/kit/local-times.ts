/**
 * What the clock of a time zone shows. A shown time is a number: the milliseconds since 1970 at which a clock of UTC shows
 * the same.
 */
export class LocalTimes {
  readonly #timeZone: string;

  constructor(timeZone: string) {
    this.#timeZone = timeZone;
  }

  shownAt(instant: number): number {
    return shownOf(zoned(instant, this.#timeZone));
  }

  /** The latest time that the clock has shown by an instant: after the clock was set back, later than what it shows. */
  latestBy(instant: number): number {
    const shown = this.shownAt(instant);
    const change = zoned(instant + 1, this.#timeZone).getTimeZoneTransition('previous');
    return change ? Math.max(shown, this.shownAt(change.epochMilliseconds - 1)) : shown;
  }

  /** The first instant at which the clock shows a time; one that it leaves out counts as the first time after the gap. */
  instantOf(shown: number): number {
    const wanted = zoned(shown, 'UTC').toPlainDateTime();
    const at = wanted.toZonedDateTime(this.#timeZone, { disambiguation: 'earlier' });
    if (shownOf(at) === shown) return at.epochMilliseconds;
    // The earlier reading of a time in the gap is an instant before it.
    return at.getTimeZoneTransition('next')?.epochMilliseconds ?? at.epochMilliseconds;
  }
}

const zoned = (instant: number, timeZone: string): Temporal.ZonedDateTime =>
  Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(timeZone);

const shownOf = (at: Temporal.ZonedDateTime): number => at.epochMilliseconds + at.offsetNanoseconds / 1e6;
