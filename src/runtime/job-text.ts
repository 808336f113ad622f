/** A job with its result as JSON text: results are stored and sent as text, and are not parsed in between. */
import type { JobView } from '../model/http/jobs.ts';

export interface JobWithResult {
  /** The job without `result`. */
  readonly job: JobView;
  /** Undefined if the job has no result. */
  readonly resultText: string | undefined;
}

/** Adds a member, whose value is JSON text, to the JSON text of an object; without a value the text stays the same. */
export function withMember(object: string, name: string, value: string | undefined): string {
  if (value === undefined) return object;
  const separator = object === '{}' ? '' : ',';
  return `${object.slice(0, -1)}${separator}${JSON.stringify(name)}:${value}}`;
}

export const jobText = ({ job, resultText }: JobWithResult): string =>
  withMember(JSON.stringify(job), 'result', resultText);

/** The job with its result parsed. */
export const jobValue = ({ job, resultText }: JobWithResult): JobView =>
  resultText === undefined ? job : { ...job, result: JSON.parse(resultText) };
