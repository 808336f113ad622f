/** A job with its result as JSON text: results are stored and sent as text, and are not parsed in between. */
import type { LargeValue } from '../kit/held-bytes.ts';
import type { JobView } from '../model/http/jobs.ts';
import type { LargeJson } from '../wire/route.ts';

export interface JobWithResult {
  /** The job without `result`. */
  readonly job: JobView;
  /** Undefined if the job has no result, or a large one. */
  readonly resultText: string | undefined;
  readonly largeResult: LargeValue | undefined;
}

/** Adds a member, whose value is JSON text, to the JSON text of an object; without a value the text stays the same. */
export function withMember(object: string, name: string, value: string | undefined): string {
  return value === undefined ? object : `${beforeMember(object, name)}${value}}`;
}

/** The JSON text of an object up to the value of a further member; behind the value, `}` is missing. */
export function beforeMember(object: string, name: string): string {
  const separator = object === '{}' ? '' : ',';
  return `${object.slice(0, -1)}${separator}${JSON.stringify(name)}:`;
}

const END = Buffer.from('}');

export async function jobText(
  { job, resultText, largeResult }: JobWithResult,
  when: 'now' | 'later',
): Promise<string | LargeJson> {
  const text = JSON.stringify(job);
  if (!largeResult) return withMember(text, 'result', resultText);
  const { bytes, release } = await largeResult.open(when);
  return { pieces: [Buffer.from(beforeMember(text, 'result')), bytes, END], release };
}
