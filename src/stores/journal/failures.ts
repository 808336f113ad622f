/** Translates errors that occur while a data folder is opened into error codes of orchd. */
import { diskErrorCode } from '../../kit/env/env.ts';
import { type ErrorCode, OrchdError } from '../../model/errors.ts';
import { isFull } from '../disk-failure.ts';

const BY_DISK_CODE: Record<string, ErrorCode> = {
  EACCES: 'STORE_UNWRITABLE',
  EPERM: 'STORE_UNWRITABLE',
  EROFS: 'STORE_UNWRITABLE',
  ENOTDIR: 'STORE_UNWRITABLE',
  // A recursive mkdir on a read-only disk fails with ENOENT.
  ENOENT: 'STORE_UNWRITABLE',
  EEXIST: 'STORE_UNWRITABLE',
  ENOSPC: 'STORE_FULL',
  EDQUOT: 'STORE_FULL',
  EIO: 'STORE_FAILED',
};

export function openFailure(thrown: unknown): Error {
  if (thrown instanceof OrchdError) return thrown;
  const error = thrown as Error;
  const code = diskErrorCode(error) ?? '';
  const known = BY_DISK_CODE[code];
  if (known) return new OrchdError(known, `the data folder cannot be opened (${code})`, {}, { cause: error });
  if (isFull(error))
    return new OrchdError('STORE_FULL', 'the disk is full: a start needs some space', {}, { cause: error });
  if (error.message === 'database is locked') {
    return new OrchdError('STORE_LOCKED', 'another process works on the history index', {}, { cause: error });
  }
  if (code === 'ERR_SQLITE_ERROR') {
    return new OrchdError(
      'STORE_UNWRITABLE',
      `the data folder cannot be locked: ${error.message}`,
      {},
      { cause: error },
    );
  }
  return error;
}
