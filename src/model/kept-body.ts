/** The one body that a job keeps beside its payload. */
import type { Body } from './body.ts';
import type { JobRecord } from './records.ts';

/** The body that a job keeps beside its payload: its result or, before it has one, what it goes on with after a wait. */
export const keptBody = ({ result, wait }: JobRecord): Body | undefined => result ?? wait?.state;

/** The job with another reference to the same kept body. */
export const withKeptBody = (job: JobRecord, body: Body): JobRecord =>
  job.result === undefined && job.wait
    ? { ...job, wait: { ...job.wait, state: body } }
    : { ...job, result: body };
