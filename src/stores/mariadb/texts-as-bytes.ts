/**
 * Long texts of many rows, as UTF-8 bytes. A text that is sent as a string has its characters counted and classified by
 * the server before it is stored; bytes are only checked to be valid. This saves a tenth of the server's time for a
 * bulk submit.
 */
import type { Value } from './sql.ts';

/** A UTF-16 code unit takes up to three bytes of UTF-8. */
const UNIT_BYTES = 3;

/** Replaces the texts in the given columns, in place. All bytes are in one buffer: one for each text would cost more. */
export function textsAsBytes(rows: Value[][], columns: readonly number[]): Value[][] {
  const bytes = Buffer.allocUnsafe(UNIT_BYTES * lengthOf(rows, columns));
  let end = 0;
  for (const row of rows) {
    for (const column of columns) {
      const start = end;
      end += bytes.write(row[column] as string, start);
      row[column] = bytes.subarray(start, end);
    }
  }
  return rows;
}

function lengthOf(rows: readonly Value[][], columns: readonly number[]): number {
  let length = 0;
  for (const row of rows) for (const column of columns) length += (row[column] as string).length;
  return length;
}
