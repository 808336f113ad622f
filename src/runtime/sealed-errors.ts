/** What executors said about the failures of a job, for readers who may know: in the records of a session it is sealed. */
import type { JobView } from '../model/http/jobs.ts';
import type { AttemptRecord, JobRecord } from '../model/records.ts';
import type { Seals } from './seals.ts';

/** The records of a job as the state, or as the history, keeps them. */
export interface ErrorRecords {
  readonly job: JobRecord;
  readonly attempts?: readonly AttemptRecord[];
  readonly past?: readonly AttemptRecord[] | undefined;
  readonly open?: AttemptRecord | undefined;
}

export function withErrors(seals: Seals, view: JobView, records: ErrorRecords): JobView | Promise<JobView> {
  const { job, attempts, past = [], open } = records;
  const all = attempts ?? (open ? [...past, open] : past);
  const isPlain = !job.error?.sealed && !all.some(({ error }) => error?.sealed);
  return isPlain ? view : opened(seals, view, job, all);
}

async function opened(
  seals: Seals,
  view: JobView,
  job: JobRecord,
  attempts: readonly AttemptRecord[],
): Promise<JobView> {
  const shown = view.attempts.map(async (attempt) => {
    const error = attempts.find(({ n }) => n === attempt.attempt)?.error;
    return error?.sealed ? { ...attempt, error: await seals.openError(error) } : attempt;
  });
  const error = job.error && (await seals.openError(job.error));
  return { ...view, attempts: await Promise.all(shown), ...(error && { error }) };
}
