/** Makes the request from the command line of `orchd submit`. */
import { parseInstant } from '../kit/instant.ts';
import type { SubmitRequest } from '../model/submit.ts';
import { choiceOf, durationOf, flagOf, jobId, listOf, numberOf, textOf, wholeOf } from './arguments.ts';
import { type CliArguments, UsageError } from './command.ts';
import { jsonOf, standardInput } from './json-argument.ts';

export const PRIORITIES = ['interactive', 'batch'] as const;
export const AFTER_POLICIES = ['succeeded', 'ended'] as const;

const MAX_MS = 3.2e10;

export async function requestOf(args: CliArguments, now: number): Promise<SubmitRequest> {
  const { values } = args;
  return withoutAbsent({
    ...jobFieldsOf(args),
    not_before: startOf(args, now),
    key: textOf(values, 'key'),
    job_id: textOf(values, 'job-id'),
    batch: textOf(values, 'batch'),
    ...(await bodyOf(args)),
  });
}

/** The options that say how a job is to be run; those that say what it is, and when it starts, are not among them. */
export function jobFieldsOf({ values }: CliArguments): Partial<SubmitRequest> {
  const after = listOf(values, 'after').map(jobId);
  return withoutAbsent({
    type: textOf(values, 'type'),
    model: textOf(values, 'model'),
    priority: choiceOf(values, 'priority', PRIORITIES),
    agent: textOf(values, 'agent'),
    session_id: textOf(values, 'session'),
    score: numberOf(values, 'score'),
    labels: pairsOf('label', listOf(values, 'label')),
    tags: pairsOf('tag', listOf(values, 'tag')),
    after: after.length === 0 ? undefined : after,
    after_policy: choiceOf(values, 'after-policy', AFTER_POLICIES),
    timeout_ms: wholeOf(values, 'timeout-ms', 1, MAX_MS),
    deadline_ms: wholeOf(values, 'deadline-ms', 1, MAX_MS),
    max_tries: wholeOf(values, 'max-tries', 1, 100),
    force_retry: flagOf(values, 'force-retry') || undefined,
    wait_for_backend: flagOf(values, 'wait-for-backend') || undefined,
  });
}

/** The earliest start that --at or --in gives; `from` is the instant that --in counts from. */
export function startOf({ values }: CliArguments, from: number): number | undefined {
  const at = textOf(values, 'at');
  const wait = durationOf(values, 'in');
  if (at !== undefined && wait !== undefined) throw new UsageError('give --in or --at, not both.');
  if (wait !== undefined) return from + wait;
  if (at === undefined) return undefined;
  const instant = parseInstant(at);
  if (instant !== undefined && instant >= 0) return instant;
  throw new UsageError(`--at needs a time with its offset, such as 2026-12-01T08:00+01:00, not "${at}".`);
}

/** What to say about --at in the past; undefined if there is nothing to say. */
export function pastStart({ values }: CliArguments, now: number): string | undefined {
  const at = textOf(values, 'at');
  const instant = at === undefined ? undefined : parseInstant(at);
  return instant === undefined || instant > now ? undefined : `${at} is in the past: it starts at once.`;
}

/** Options that were not given are left out of the request. */
const withoutAbsent = (fields: object): Partial<SubmitRequest> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

async function bodyOf({
  values,
  positionals,
}: CliArguments): Promise<Pick<SubmitRequest, 'payload' | 'prompt'>> {
  const [prompt, second] = positionals;
  const payload = textOf(values, 'payload');
  if (second !== undefined)
    throw new UsageError(`only one prompt can be given: put it in quotes ("${prompt} ${second} …").`);
  if (prompt !== undefined && payload !== undefined) {
    throw new UsageError('give a prompt or --payload, not both.');
  }
  if (payload !== undefined) return { payload: await jsonOf('--payload', payload) };
  if (prompt === '-') return { prompt: nonEmpty(await standardInput(), 'standard input') };
  if (prompt !== undefined) return { prompt: nonEmpty(prompt, 'the prompt') };
  if (textOf(values, 'type') !== undefined) return {};
  throw new UsageError('the input is missing: give a prompt, --payload or --type.');
}

/** Refuses an empty prompt: it comes from a variable that is not set, or from a file that was not written. */
function nonEmpty(prompt: string, where: string): string {
  if (prompt.trim() === '') throw new UsageError(`${where} is empty.`);
  return prompt;
}

/** `NAME=VALUE` of an option that can be repeated. */
function pairsOf(option: string, pairs: readonly string[]): Record<string, string> | undefined {
  if (pairs.length === 0) return undefined;
  const entries = pairs.map((pair) => {
    const separator = pair.indexOf('=');
    if (separator < 1) throw new UsageError(`--${option} needs NAME=VALUE, not "${pair}".`);
    return [pair.slice(0, separator), pair.slice(separator + 1)];
  });
  return Object.fromEntries(entries);
}
