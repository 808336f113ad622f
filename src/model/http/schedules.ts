/** Schemas of schedules, as they are written in HTTP requests, answers and the configuration. */
import { Type } from 'typebox';
import { CATCH_UPS, type CatchUp, OVERLAPS, type Overlap, SCHEDULE_NAME } from '../schedule.ts';
import { AnyObject, answerObject, instant, orNull, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

/** A choice whose values are explained. */
const explained = <T extends string>(title: string, meanings: Readonly<Record<T, string>>, about: string) =>
  Type.Unsafe<T>({
    type: 'string',
    title,
    enum: Object.keys(meanings),
    description: [
      about,
      ...Object.entries(meanings).map(([name, meaning]) => `- ${name}: ${String(meaning)}`),
    ].join('\n'),
  });

/** The longest interval, in seconds: about ten years. */
const MAX_EVERY_SEC = 3.2e8;

export const SCHEDULE_FIELDS = {
  cron: optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'A cron expression of five fields, of six with the seconds first, or such as @daily',
    }),
  ),
  every_sec: optional(
    Type.Number({
      minimum: 1,
      maximum: MAX_EVERY_SEC,
      description: 'Instead of `cron`: an interval; its ticks are the multiples since 1970',
    }),
  ),
  time_zone: optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'The zone of `cron`, such as Europe/Berlin; UTC by default',
    }),
  ),
  overlap: optional(
    explained<Overlap>(
      'Overlap',
      OVERLAPS,
      'What becomes of a tick while the job of the one before goes on; skip by default',
    ),
  ),
  catch_up: optional(
    explained<CatchUp>(
      'CatchUp',
      CATCH_UPS,
      'What becomes of ticks that came while no brain was there; last by default',
    ),
  ),
  job: Type.Unsafe<Record<string, unknown>>({
    ...AnyObject,
    description:
      'The job of each tick, as POST /v2/tasks takes it, without job_id, key, not_before, lease and force_retry',
  }),
};

export const SetSchedule = requestObject(SCHEDULE_FIELDS);
export type WrittenSchedule = Shape<typeof SetSchedule>;

/** A schedule of the configuration. */
export const NamedSchedule = requestObject({
  name: Type.String({ pattern: SCHEDULE_NAME, description: 'Letters, digits, "_" and "-"' }),
  ...SCHEDULE_FIELDS,
});

export type ConfiguredSchedule = Shape<typeof NamedSchedule>;

export const ScheduleView = answerObject('Schedule', {
  schedule: Type.String({ description: 'Its name' }),
  cron: optional(Type.String()),
  every_sec: optional(Type.Number()),
  time_zone: Type.String(),
  overlap: Type.Enum(Object.keys(OVERLAPS) as Overlap[]),
  catch_up: Type.Enum(Object.keys(CATCH_UPS) as CatchUp[]),
  job: AnyObject,
  source: Type.Enum(['config', 'api'], { description: 'config: only the configuration changes it' }),
  by: Type.String({ description: 'Who has set it' }),
  set_at: instant('When it was set'),
  next_at: orNull(instant('When it is due next')),
  last: orNull(
    answerObject('ScheduleTick', {
      at: instant('When it was due'),
      outcome: Type.Enum(['admitted', 'skipped', 'refused']),
      job_id: optional(Type.String()),
      error: optional(Type.String()),
    }),
  ),
  admitted: Type.Integer({ description: 'Ticks whose job was admitted' }),
  skipped: Type.Integer({
    description: 'Ticks that were left out because the job of the one before went on',
  }),
  refused: Type.Integer({ description: 'Ticks whose job was refused for good' }),
  missed: Type.Integer({
    description: 'How often one or more ticks came while no brain was there, and were not made up for',
  }),
});
export type ScheduleView = Shape<typeof ScheduleView>;

export const ScheduleQuery = requestObject({
  after: optional(
    Type.String({ maxLength: 64, description: 'The name of the last schedule of the previous page' }),
  ),
  limit: optional(Type.Integer({ minimum: 1, maximum: 200, description: '100 by default' })),
});

export const SchedulePage = answerObject('SchedulePage', {
  schedules: Type.Array(ScheduleView, { description: 'In the order of their names' }),
  next: optional(
    Type.String({ description: 'The value of `after` for the next page; absent on the last page' }),
  ),
});
export type SchedulePage = Shape<typeof SchedulePage>;
