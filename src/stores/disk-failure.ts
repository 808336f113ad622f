/** What a failure of a disk means, for every store and migration that writes to one. */
import { diskErrorCode } from '../kit/env/env.ts';
import { OrchdError } from '../model/errors.ts';

export function isFull(error: unknown): boolean {
  const code = diskErrorCode(error);
  // SQLite says it in words.
  return code === 'ENOSPC' || code === 'EDQUOT' || (error as Error).message === 'database or disk is full';
}

/** What went wrong while an open store was written. */
export function diskFailure(thrown: unknown, what: string): Error {
  if (thrown instanceof OrchdError) return thrown;
  const error = thrown as Error;
  const code = isFull(error) ? 'STORE_FULL' : 'STORE_FAILED';
  return new OrchdError(code, `${what} (${diskErrorCode(error) ?? error.message})`, {}, { cause: error });
}
