/** What a submit needs to know before the engine decides, and what its answer means. */
import type { Submission } from '../core/admission/submission.ts';
import type { SubmitAnswer } from '../core/engine/jobs.ts';
import { OrchdError } from '../model/errors.ts';
import type { Submitted } from '../model/http/jobs.ts';
import type { Prepared } from './prepare.ts';

/**
 * Whether a job in memory, of which this is a duplicate or which it waits for, was evicted before the engine decided, or
 * its session was archived: a repeated submit finds it in the history, or in the archive.
 */
export const isOvertaken = ({ code }: OrchdError, { bodyStored, spec, session }: Submission): boolean =>
  code === 'STORE_BUSY' && (!bodyStored || spec.after !== undefined || session !== undefined);

/** Whether a job of the same id may have ended and left memory: a caller, not orchd, has chosen the id. */
export const mayHaveEnded = ({ submission, isNewId = false }: Omit<Prepared, 'payloadText'>): boolean =>
  submission.hash !== undefined && !isNewId;

/** Whether the history must be read before the engine decides: the job may have ended, or one that it waits for. */
export const needsHistory = (prepared: Omit<Prepared, 'payloadText'>): boolean =>
  mayHaveEnded(prepared) || prepared.submission.spec.after !== undefined;

/** The result of `run`, or the OrchdError that it throws, as a value. */
export async function orRefusal<T>(run: () => T | Promise<T>): Promise<T | OrchdError> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof OrchdError) return error;
    throw error;
  }
}

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
