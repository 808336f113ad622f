/** Schedules: jobs that are submitted again and again, at the ticks of a cron expression or of an interval. */

/** What becomes of a tick while the job of the tick before has not ended. */
export const OVERLAPS = {
  skip: 'the tick is left out',
  queue: 'its job is submitted, and waits like any other',
  replace: 'the earlier job is cancelled first',
} as const;
export type Overlap = keyof typeof OVERLAPS;

/** What becomes of ticks that came while no brain was there. */
export const CATCH_UPS = {
  none: 'they are missed, unless the last one was less than a minute ago',
  last: 'only the last one is made up for',
  all: 'all are made up for in order, the last 1,000 at most',
} as const;
export type CatchUp = keyof typeof CATCH_UPS;

export interface ScheduleSpec {
  readonly cron?: string | undefined;
  readonly everyMs?: number | undefined;
  readonly timeZone: string;
  readonly overlap: Overlap;
  readonly catchUp: CatchUp;
  /** The JSON text of the job's request. */
  readonly request: string;
}

/** How the last tick was decided. */
export interface LastTick {
  readonly at: number;
  readonly outcome: 'admitted' | 'skipped' | 'refused';
  /** The job, if one was admitted. */
  readonly job?: string | undefined;
  /** Why the job was refused. */
  readonly error?: string | undefined;
}

export interface ScheduleRecord extends ScheduleSpec {
  readonly v: 1;
  readonly tenant: string;
  readonly name: string;
  /** `config`: only the configuration changes or deletes it. */
  readonly source: 'config' | 'api';
  readonly by: string;
  readonly setAt: number;
  /** The models that its jobs may use, as far as whoever has set it may; undefined: all. */
  readonly models?: readonly string[] | undefined;
  /** No tick up to this instant is decided any more. */
  readonly tickedTo: number;
  readonly last?: LastTick | undefined;
  /** The last job that was admitted: the next tick looks whether it has ended. */
  readonly lastJob?: string | undefined;
  readonly admitted: number;
  readonly skipped: number;
  readonly refused: number;
  readonly missed: number;
}

export const MAX_SCHEDULES = 20_000;
/** The longest text of a schedule's request: schedules are in memory. */
export const MAX_REQUEST_CHARS = 64 * 1024;

/** The pattern of names; they are part of the ids of jobs. */
export const SCHEDULE_NAME = '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$';

/** The id of the job of a tick: a tick that is decided twice would still be one job. */
export const tickJobId = (name: string, at: number): string =>
  `schedule.${name}.${new Date(at).toISOString().replace(/[-:]|\.000/g, '')}`;
