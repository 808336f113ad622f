/**
 * Turns a line of a file of jobs into the request that is sent for it, or says what is wrong with it. A line is a job as
 * the API takes it, or a prompt in quotes; `name` and the names in `after` are only for files.
 */
import { OrchdError } from '../../model/errors.ts';
import { JOB_ID, MAX_AFTER } from '../../model/job-spec.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { checkRequest } from '../../runtime/prepare.ts';
import { parseJsonBody } from '../../wire/json-body.ts';
import type { Line } from '../../wire/line-splitter.ts';
import { MAX_LINE_BYTES } from './source-file.ts';

/** What is wrong with a line. */
export class LineFault extends Error {}

/** A job whose ids are not known yet: `after` may have names. */
export interface CheckedLine {
  readonly number: number;
  readonly name: string | undefined;
  readonly request: SubmitRequest;
  /** The entries of its own `after`; the ids of --after are no names. */
  readonly after: readonly string[];
}

export type JobDefaults = Readonly<Partial<SubmitRequest>>;

const isJobId = new RegExp(JOB_ID);
const MAX_NAME_CHARS = 255;

export function checkLine({ number, bytes }: Line, defaults: JobDefaults): CheckedLine {
  try {
    const { name, ...job } = objectOf(bytes);
    if (isOpenAiBatch(job)) throw new LineFault(OPENAI_BATCH);
    for (const [field, why] of Object.entries(FOREIGN_FIELDS)) if (field in job) throw new LineFault(why);
    const after = afterOf(job);
    // The names of other lines need not have the form of job ids.
    const checked = after.length === 0 ? job : { ...job, after: [...after.keys()].map(String) };
    const request = checkRequest(withDefaults(checked, defaults));
    return { number, name: nameOf(name), request, after };
  } catch (error) {
    if (error instanceof OrchdError) throw new LineFault(wordsFor(error));
    throw error;
  }
}

/** Fields that a line cannot have, because the file decides them. */
const FOREIGN_FIELDS: Readonly<Record<string, string>> = {
  job_id:
    '"job_id" is made of the batch and the number of the line; use "name" to refer to a line in "after"',
  batch: '"batch" is the same for the whole file: give it as --batch',
};

/** A line of a file for OpenAI's batch API; its `body` has the names that a job has. */
const isOpenAiBatch = (job: Readonly<Record<string, unknown>>): boolean =>
  isRecord(job['body']) && ('custom_id' in job || 'url' in job);
const OPENAI_BATCH =
  "the line is in OpenAI's batch format; make jobs of it: jq -c '.body + {tags: {custom_id}}' file > jobs.jsonl";

function objectOf(bytes: Buffer | undefined): Record<string, unknown> {
  if (!bytes) throw new LineFault(`the line is longer than ${MAX_LINE_BYTES / 2 ** 20} MiB`);
  const value = parsed(bytes);
  if (typeof value === 'string') {
    if (value.trim() === '') throw new LineFault('the prompt is empty');
    return { prompt: value };
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new LineFault('the line must be an object, or a prompt in quotes');
}

function parsed(bytes: Buffer): unknown {
  try {
    return parseJsonBody(bytes);
  } catch (error) {
    // The parser of the server does not say where the fault is.
    if (error instanceof OrchdError) throw new LineFault(jsonFault(bytes) ?? wordsFor(error));
    throw error;
  }
}

function jsonFault(bytes: Buffer): string | undefined {
  const text = bytes.toString('utf8');
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    if (!/^\s*[{["]/.test(text)) return 'not JSON; a prompt needs quotes: jq -R . file > file.jsonl';
    return `not valid JSON: ${(error as Error).message}`;
  }
}

function nameOf(name: unknown): string | undefined {
  if (name === undefined) return undefined;
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME_CHARS)
    throw new LineFault(`"name" must be a text of 1 to ${MAX_NAME_CHARS} characters`);
  return name;
}

/** The entries of `after`: names or job ids. Anything else than a list of texts is left for the checker of the API. */
function afterOf({ after }: Readonly<Record<string, unknown>>): readonly string[] {
  if (after === undefined) return [];
  if (!Array.isArray(after) || after.length === 0 || after.length > MAX_AFTER)
    throw new LineFault(`"after" must be a list of 1 to ${MAX_AFTER} names or job ids`);
  for (const entry of after)
    if (typeof entry !== 'string' || entry === '')
      throw new LineFault('"after" must be a list of names or job ids');
  if (new Set(after).size < after.length) throw new LineFault('"after" has an entry twice');
  return after as string[];
}

/** What the line does not say is taken from the options of the command line; of tags and labels each one by itself. */
function withDefaults(job: Readonly<Record<string, unknown>>, defaults: JobDefaults): object {
  const merged: Record<string, unknown> = { ...defaults, ...job };
  for (const field of ['tags', 'labels'] as const) {
    const own = job[field];
    if (defaults[field] && isRecord(own)) merged[field] = { ...defaults[field], ...own };
  }
  return merged;
}

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The checker speaks of a request. */
function wordsFor({ message }: OrchdError): string {
  return message
    .replace(
      /^the request has no field ("(?:[^"\\]|\\.)*")$/,
      '$1 is not a known field; own fields go into "tags" or "payload"',
    )
    .replace(/^the request has no field ("(?:[^"\\]|\\.)*")/, '$1 is not a known field')
    .replace(/^the (?:request|body) /, 'the line ');
}

export const isPossibleJobId = (text: string): boolean => isJobId.test(text);
