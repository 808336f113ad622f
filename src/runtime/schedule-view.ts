/** Schedules as people write and see them, and the specs that the brain keeps of them. */
import { Ticks } from '../kit/ticks.ts';
import { OrchdError } from '../model/errors.ts';
import type { ScheduleView, WrittenSchedule } from '../model/http/schedules.ts';
import type { ScheduleRecord, ScheduleSpec } from '../model/schedule.ts';

/** Each tick has an id of its own, and is due when it is due. */
const NOT_IN_JOB = ['job_id', 'key', 'not_before', 'lease', 'force_retry'] as const;

/** Throws INVALID_PARAMS for a job that names what each tick has of its own. */
export function scheduleSpec(written: WrittenSchedule): ScheduleSpec {
  const { cron, every_sec, time_zone = 'UTC', overlap = 'skip', catch_up = 'last', job } = written;
  const wrong = NOT_IN_JOB.find((name) => Object.hasOwn(job, name));
  if (wrong !== undefined)
    throw new OrchdError('INVALID_PARAMS', `the job of a schedule has no "${wrong}"`, {
      field: `job.${wrong}`,
    });
  return {
    ...(cron !== undefined && { cron }),
    ...(every_sec !== undefined && { everyMs: Math.round(every_sec * 1000) }),
    ...{ timeZone: time_zone, overlap, catchUp: catch_up, request: JSON.stringify(job) },
  };
}

export function scheduleView(record: ScheduleRecord, now: number): ScheduleView {
  const { name, cron, everyMs, timeZone, overlap, catchUp, request, source, by, setAt, last } = record;
  const { admitted, skipped, refused, missed, tickedTo } = record;
  return {
    schedule: name,
    ...(cron !== undefined && { cron }),
    ...(everyMs !== undefined && { every_sec: everyMs / 1000 }),
    ...{ time_zone: timeZone, overlap, catch_up: catchUp, job: JSON.parse(request) },
    ...{ source, by, set_at: setAt },
    next_at: new Ticks(record).after(Math.max(now, tickedTo)) ?? null,
    last: last
      ? {
          ...{ at: last.at, outcome: last.outcome },
          ...(last.job !== undefined && { job_id: last.job }),
          ...(last.error !== undefined && { error: last.error }),
        }
      : null,
    ...{ admitted, skipped, refused, missed },
  };
}

export const isSameSpec = (a: ScheduleSpec, b: ScheduleSpec): boolean =>
  (['cron', 'everyMs', 'timeZone', 'overlap', 'catchUp', 'request'] as const).every(
    (key) => a[key] === b[key],
  );

/** The records of a page, and the name to go on after if there are more. */
export function schedulesAfter(
  records: Iterable<ScheduleRecord>,
  tenant: string,
  after: string,
  limit: number,
): { readonly page: readonly ScheduleRecord[]; readonly next: string | undefined } {
  const found = [...records]
    .filter((record) => record.tenant === tenant && record.name > after)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const page = found.slice(0, limit);
  return { page, next: found.length > limit ? page.at(-1)?.name : undefined };
}
