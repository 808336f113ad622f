/** A job with its result as JSON text: a result is stored as text and leaves as text, and is not parsed on its way. */
import type { JobView } from '../model/http/jobs.ts';

export interface JobWithResult {
  /** Without `result`. */
  readonly job: JobView;
  /** Undefined where the job has no result. */
  readonly resultText: string | undefined;
}

/** The text of an object with one more member, whose value is JSON text; unchanged without a value. */
export function withMember(object: string, name: string, value: string | undefined): string {
  if (value === undefined) return object;
  const separator = object === '{}' ? '' : ',';
  return `${object.slice(0, -1)}${separator}${JSON.stringify(name)}:${value}}`;
}

export const jobText = ({ job, resultText }: JobWithResult): string =>
  withMember(JSON.stringify(job), 'result', resultText);

/** The job with its result as a value. */
export const jobValue = ({ job, resultText }: JobWithResult): JobView =>
  resultText === undefined ? job : { ...job, result: JSON.parse(resultText) };
