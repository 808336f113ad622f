/** Tells a model what time it is: it cannot know. */
import type { Clock } from '../../kit/env/env.ts';
import { isTimeZone } from '../../kit/window.ts';
import type { Tool } from './tool.ts';

const WEEKDAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const MAX_ZONE_CHARS = 64;

export function currentTimeTool(clock: Clock): Tool {
  return {
    name: 'current_time',
    description: 'Returns the current date and time in UTC and, if asked, as the local time of a time zone.',
    parameters: {
      type: 'object',
      properties: {
        time_zone: {
          type: 'string',
          maxLength: MAX_ZONE_CHARS,
          description: 'A name of the IANA database, such as Europe/Berlin. UTC if left out.',
        },
      },
      additionalProperties: false,
    },
    effect: 'pure',
    category: 'read',
    timeoutMs: 5000,
    run: ({ time_zone: zone = 'UTC' }: { time_zone?: string }) => {
      if (!isTimeZone(zone))
        throw new Error(`there is no time zone "${zone}": use a name such as Europe/Berlin or UTC`);
      const instant = Temporal.Instant.fromEpochMilliseconds(Math.floor(clock.now()));
      const local = instant.toZonedDateTimeISO(zone);
      return {
        utc: instant.toString({ fractionalSecondDigits: 3 }),
        time_zone: local.timeZoneId,
        local: local.toString({ smallestUnit: 'second', timeZoneName: 'never' }),
        weekday: WEEKDAYS[local.dayOfWeek - 1],
      };
    },
  };
}
