/** Results as CSV (RFC 4180). */
import type { BatchResult } from '../../client/client.ts';

const COLUMNS = [
  'line',
  'job_id',
  'state',
  'text',
  'result',
  'error_code',
  'error_message',
  'tries',
  'duration_ms',
] as const;

export const CSV_HEADER = `${COLUMNS.join(',')}\r\n`;

type Cell = string | number | undefined;

export function csvRow(job: BatchResult, line: number | undefined): string {
  // A job whose last try failed has no start; that of the try is in its attempt.
  const start = job.started_at ?? job.attempts.at(-1)?.accepted_at;
  const end = job.ended_at;
  const cells: Record<(typeof COLUMNS)[number], Cell> = {
    line,
    job_id: job.job_id,
    state: job.state,
    text: textOf(job.result),
    result: job.result === undefined ? undefined : JSON.stringify(job.result),
    error_code: job.error?.code,
    error_message: job.error?.message,
    tries: job.tries,
    duration_ms: start === undefined || end === undefined ? undefined : end - start,
  };
  return `${COLUMNS.map((name) => csvCell(cells[name])).join(',')}\r\n`;
}

/** The text of an answer: a result that is a text, or has one as its field `text`, as most backends give it. */
function textOf(result: unknown): string | undefined {
  if (typeof result === 'string') return result;
  const text = (result as { readonly text?: unknown } | null | undefined)?.text;
  return typeof text === 'string' ? text : undefined;
}

/** A text that a spreadsheet would run as a formula. A number with a sign is none. */
const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/** A text that begins like a formula gets an apostrophe before it, which spreadsheets take as the mark of a text. */
export function csvCell(value: Cell): string {
  if (value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
