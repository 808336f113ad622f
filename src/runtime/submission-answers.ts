/** What follows from the engine's answer to a submission, and what has to be known before it is asked. */
import type { Submission } from '../core/admission/submission.ts';
import type { SubmitAnswer } from '../core/engine/jobs.ts';
import type { OrchdError } from '../model/errors.ts';
import type { Submitted } from '../model/http/jobs.ts';

/**
 * Whether a job in memory, of which this is a duplicate or which it waits for, was evicted before the engine decided, or
 * its session was archived: a repeated submit finds it in the history, or in the archive.
 */
export const isOvertaken = ({ code }: OrchdError, { bodyStored, spec, session }: Submission): boolean =>
  code === 'STORE_BUSY' && (!bodyStored || spec.after !== undefined || session !== undefined);

/** Whether the history must be read before the engine decides: the job may have ended, or one that it waits for. */
export const needsHistory = ({ hash, spec }: Submission): boolean =>
  hash !== undefined || spec.after !== undefined;

export function submittedOf(answer: SubmitAnswer): Submitted {
  const view: { -readonly [K in keyof Submitted]: Submitted[K] } = {
    job_id: answer.id,
    status: answer.status,
  };
  if (answer.queuePosition !== undefined) view.queue_position = answer.queuePosition;
  if (answer.predictedStartMs !== undefined) view.predicted_start_ms = answer.predictedStartMs;
  if (answer.duplicateOf !== undefined) view.duplicate_of = answer.duplicateOf;
  if (answer.warning !== undefined) view.warning = answer.warning;
  return view;
}
