/** The list `schedules`: jobs that are submitted again and again (docs/schedules.md). */
import { Type } from 'typebox';
import { NamedSchedule } from '../model/http/schedules.ts';

const MAX_CONFIGURED = 10_000;

export const SchedulesSchema = Type.Array(NamedSchedule, {
  default: [],
  maxItems: MAX_CONFIGURED,
  expected: 'a list of schedules, each with a name, `cron` or `every_sec`, and a job',
});
