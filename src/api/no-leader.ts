/** What a caller is told whose request found no leader, or lost it. */
import { type ErrorDetails, OrchdError } from '../model/errors.ts';

const RETRY_AFTER_MS = 2000;

/** For a request that must not be repeated unasked: a change of leader is over soon, so that it may be sent again. */
export const leaderLost = (): OrchdError =>
  new OrchdError(
    'NO_LEADER',
    'the leader was lost while it handled the request: check whether it took effect before you repeat it',
    { retryAfterMs: RETRY_AFTER_MS },
  );

/**
 * For a request that got no answer in time. `given` is its body as it came from the caller, and `sent` the body that
 * was sent to a leader, if it was: jobs in it may have been accepted. The error names the ids that this node gave them,
 * because repeating the request with these ids is safe.
 */
export function noLeader(given: unknown, sent?: unknown): OrchdError {
  const ids = sentIds(given, sent);
  return new OrchdError('NO_LEADER', messageFor(ids), { retryAfterMs: RETRY_AFTER_MS, ...ids });
}

type SentIds = Pick<ErrorDetails, 'jobId' | 'jobIds'>;

function sentIds(given: unknown, sent: unknown): SentIds {
  if (Array.isArray(given) && Array.isArray(sent)) {
    const jobIds = sent.map(idOf);
    return jobIds.some((id, at) => id !== idOf(given[at])) ? { jobIds } : {};
  }
  const jobId = idOf(sent);
  return jobId !== null && jobId !== idOf(given) ? { jobId } : {};
}

function messageFor({ jobId, jobIds }: SentIds): string | undefined {
  if (jobIds)
    return 'there is no leader now; repeat the request with a "job_id" for each job, from "job_ids": they may have been accepted already';
  return jobId === undefined
    ? undefined
    : `there is no leader now; repeat the request with "job_id": "${jobId}", it may have been accepted already`;
}

function idOf(body: unknown): string | null {
  const id = (body as { readonly job_id?: unknown } | null | undefined)?.job_id;
  return typeof id === 'string' ? id : null;
}
