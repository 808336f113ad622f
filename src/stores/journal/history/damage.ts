/** Tells damage in the file of the history from faults that pass. */
import { HistoryDamaged } from './history.ts';

/** The file was written by a version of orchd whose layout is not known. */
export class OtherLayout extends Error {}

const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** True where the file itself is unusable; false for a passing fault such as a lock or a full disk. */
export function isDamaged(error: unknown): boolean {
  const { errcode = 0 } = error as { errcode?: number };
  // The lowest byte of an extended SQLite error code is the primary code.
  return (
    error instanceof OtherLayout ||
    error instanceof HistoryDamaged ||
    [SQLITE_CORRUPT, SQLITE_NOTADB].includes(errcode & 0xff)
  );
}

export function noticingDamage<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw isDamaged(error) ? new HistoryDamaged((error as Error).message, { cause: error }) : error;
  }
}
