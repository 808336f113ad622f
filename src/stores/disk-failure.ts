/** Translates errors of a disk into error codes of orchd, for every store and migration that writes files. */
import { diskErrorCode } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';

export function isFull(error: unknown): boolean {
  const code = diskErrorCode(error);
  // SQLite reports a full disk only in its message.
  return code === 'ENOSPC' || code === 'EDQUOT' || (error as Error).message === 'database or disk is full';
}

/** The error to report for a failed write; `what` names the write that failed. */
export function diskFailure(thrown: unknown, what: string): Error {
  if (thrown instanceof OrchdError) return thrown;
  const error = thrown as Error;
  const code = isFull(error) ? 'STORE_FULL' : 'STORE_FAILED';
  return new OrchdError(code, `${what} (${diskErrorCode(error) ?? error.message})`, {}, { cause: error });
}
