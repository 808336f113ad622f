/** A job in the words of the table orchestrator_jobs. */
import { isPoolOfConsumers, poolOfBackend } from './consumer-record.ts';
import type { ErrorInfo } from './errors.ts';
import type { JobView } from './http/jobs.ts';
import type { JobTableRow } from './http/jobs-table.ts';
import type { JobState } from './states.ts';

/** Column `status` of each state. The first users of these tables chose these words; the other states keep our name. */
export const TABLE_STATUS = {
  queued: 'pending',
  claimed: 'claimed',
  running: 'running',
  waiting: 'waiting',
  stale: 'stale',
  failed: 'failed',
  dead: 'dead_letter',
  succeeded: 'done',
  cancelled: 'cancelled',
} as const satisfies Record<JobState, string>;

const MAX_ERROR_CHARS = 4000;

/** Column `last_error`. */
export const tableError = ({ code, message }: Pick<ErrorInfo, 'code' | 'message'>): string =>
  `${code}: ${message}`.slice(0, MAX_ERROR_CHARS);

/** Column `owner_pool`. The consumers of a pool are one backend, and others know them by the name of the pool alone. */
export const tableOwner = (backend: string): string =>
  isPoolOfConsumers(backend) ? poolOfBackend(backend) : backend;

/** States in which no backend has the job. */
const OWNED_BY_NOBODY: readonly JobState[] = ['queued', 'waiting'];

export function tableRowOf(view: JobView): JobTableRow {
  const { job_id, type, state, attempts, created_at, started_at, ended_at, error } = view;
  const last = attempts.at(-1);
  const instants = attempts.flatMap((each) => [each.intended_at, each.accepted_at, each.ended_at]);
  const known = [created_at, started_at, ended_at, ...instants].filter((at) => at !== undefined);
  return {
    job_id,
    type,
    status: TABLE_STATUS[state],
    owner_pool: last && !OWNED_BY_NOBODY.includes(state) ? tableOwner(last.backend) : null,
    attempts: last?.attempt ?? 0,
    created_at,
    updated_at: Math.max(...known),
    last_error: error ? tableError(error) : null,
  };
}
