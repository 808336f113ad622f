/** Makes the request from the command line of `orchd submit`. */
import type { SubmitRequest } from '../model/submit.ts';
import { choiceOf, flagOf, listOf, numberOf, textOf, wholeOf } from './arguments.ts';
import { type CliArguments, UsageError } from './command.ts';
import { jsonOf, standardInput } from './json-argument.ts';

export const PRIORITIES = ['interactive', 'batch'] as const;

const MAX_MS = 3.2e10;

export async function requestOf(args: CliArguments): Promise<SubmitRequest> {
  const { values } = args;
  const fields = {
    type: textOf(values, 'type'),
    model: textOf(values, 'model'),
    priority: choiceOf(values, 'priority', PRIORITIES),
    key: textOf(values, 'key'),
    job_id: textOf(values, 'job-id'),
    agent: textOf(values, 'agent'),
    session_id: textOf(values, 'session'),
    score: numberOf(values, 'score'),
    labels: labelsOf(listOf(values, 'label')),
    timeout_ms: wholeOf(values, 'timeout-ms', 1, MAX_MS),
    deadline_ms: wholeOf(values, 'deadline-ms', 1, MAX_MS),
    max_tries: wholeOf(values, 'max-tries', 1, 100),
    force_retry: flagOf(values, 'force-retry') || undefined,
    wait_for_backend: flagOf(values, 'wait-for-backend') || undefined,
    ...(await bodyOf(args)),
  };
  // Options that were not given are left out of the request.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

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

function labelsOf(pairs: readonly string[]): Record<string, string> | undefined {
  if (pairs.length === 0) return undefined;
  const entries = pairs.map((pair) => {
    const separator = pair.indexOf('=');
    if (separator < 1) throw new UsageError(`--label needs NAME=VALUE, not "${pair}".`);
    return [pair.slice(0, separator), pair.slice(separator + 1)];
  });
  return Object.fromEntries(entries);
}
