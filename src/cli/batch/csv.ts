/** Results as CSV (RFC 4180). */
import type { BatchResult } from '../../client/client.ts';
import { type CsvCell, csvLine } from '../../kit/csv.ts';
import { lastRunMs } from '../text/job-text.ts';

const COLUMNS = [
  'line',
  'job_id',
  'state',
  'model',
  'text',
  'result',
  'error_code',
  'error_message',
  'failed_tries',
  'duration_ms',
  'payload',
] as const;
type Column = (typeof COLUMNS)[number];

/** The column `payload` is there only if payloads were asked for. */
const columnsOf = (hasPayload: boolean): readonly Column[] =>
  hasPayload ? COLUMNS : COLUMNS.filter((name) => name !== 'payload');

export const csvHeader = (hasPayload: boolean): string => csvLine(columnsOf(hasPayload));

export function csvRow(job: BatchResult, line: number | undefined, hasPayload: boolean): string {
  const cells: Record<Column, CsvCell> = {
    line,
    job_id: job.job_id,
    state: job.state,
    model: job.model,
    text: textOf(job.result),
    result: jsonOf(withoutText(job.result)),
    error_code: job.error?.code,
    error_message: job.error?.message,
    failed_tries: job.tries,
    duration_ms: lastRunMs(job),
    payload: jsonOf(job.payload),
  };
  return csvLine(columnsOf(hasPayload).map((name) => cells[name]));
}

const jsonOf = (value: unknown): string | undefined =>
  value === undefined ? undefined : JSON.stringify(value);

/** The part of a result that the column `text` does not have; undefined if there is none. */
function withoutText(result: unknown): unknown {
  if (textOf(result) === undefined) return result;
  if (typeof result === 'string') return undefined;
  const { text: _, exit_code, ...rest } = result as Record<string, unknown>;
  const others = exit_code === undefined || exit_code === 0 ? rest : { exit_code, ...rest };
  return Object.keys(others).length === 0 ? undefined : others;
}

/** The text of an answer: a result that is a text, or has one as its field `text`, as most backends give it. */
function textOf(result: unknown): string | undefined {
  if (typeof result === 'string') return result;
  const text = (result as { readonly text?: unknown } | null | undefined)?.text;
  return typeof text === 'string' ? text : undefined;
}
