/** The statuses of jobs in a spool: a projection of the one table of job states. */
import { JOB_STATES, type JobState, mayMoveJob } from '../model/states.ts';

export const SPOOL_STATUSES = ['queued', 'in-progress', 'succeeded', 'failed', 'stale', 'killed'] as const;
export type SpoolStatus = (typeof SPOOL_STATUSES)[number];

/** The status that a spool shows for each state of a job. */
export const STATUS_OF: Readonly<Record<JobState, SpoolStatus>> = {
  queued: 'queued',
  claimed: 'in-progress',
  running: 'in-progress',
  // A job that waits has no attempt, and is queued again afterwards.
  waiting: 'queued',
  stale: 'stale',
  failed: 'failed',
  dead: 'killed',
  succeeded: 'succeeded',
  cancelled: 'killed',
};

export const isSpoolStatus = (value: unknown): value is SpoolStatus =>
  (SPOOL_STATUSES as readonly unknown[]).includes(value);

const LEGAL: ReadonlySet<string> = new Set(
  JOB_STATES.flatMap((from) =>
    JOB_STATES.filter((to) => mayMoveJob(from, to) && STATUS_OF[from] !== STATUS_OF[to]).map(
      (to) => `${STATUS_OF[from]} ${STATUS_OF[to]}`,
    ),
  ),
);

export const mayChangeStatus = (from: SpoolStatus, to: SpoolStatus): boolean => LEGAL.has(`${from} ${to}`);
