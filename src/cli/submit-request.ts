/** From the words of `orchd submit` to the request. */
import type { SubmitRequest } from '../model/submit.ts';
import { type Given, UsageError } from './command.ts';
import { choiceOf, flagOf, listOf, numberOf, textOf, wholeOf } from './given.ts';
import { jsonOf, standardInput } from './json-argument.ts';

export const PRIORITIES = ['interactive', 'batch'] as const;

const MAX_MS = 3.2e10;

export async function requestOf(given: Given): Promise<SubmitRequest> {
  const { values } = given;
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
    ...(await bodyOf(given)),
  };
  // The request refuses what it does not know, and an absent field is absent.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

async function bodyOf({ values, positionals }: Given): Promise<Pick<SubmitRequest, 'payload' | 'prompt'>> {
  const [prompt, more] = positionals;
  const payload = textOf(values, 'payload');
  if (more !== undefined) throw new UsageError(`one prompt: put it in quotes ("${prompt} ${more} …").`);
  if (prompt !== undefined && payload !== undefined) {
    throw new UsageError('give a prompt or --payload, not both.');
  }
  if (payload !== undefined) return { payload: await jsonOf('--payload', payload) };
  if (prompt === '-') return { prompt: said(await standardInput(), 'standard input') };
  if (prompt !== undefined) return { prompt: said(prompt, 'the prompt') };
  if (textOf(values, 'type') !== undefined) return {};
  throw new UsageError('what is to be done? Give a prompt, --payload or --type.');
}

/** Nothing is what a variable that is not set, or a file that was not written, leaves. */
function said(prompt: string, where: string): string {
  if (prompt.trim() === '') throw new UsageError(`${where} is empty: there is nothing to ask.`);
  return prompt;
}

function labelsOf(pairs: readonly string[]): Record<string, string> | undefined {
  if (pairs.length === 0) return undefined;
  const entries = pairs.map((pair) => {
    const at = pair.indexOf('=');
    if (at < 1) throw new UsageError(`--label needs NAME=VALUE, not "${pair}".`);
    return [pair.slice(0, at), pair.slice(at + 1)];
  });
  return Object.fromEntries(entries);
}
