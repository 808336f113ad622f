/** The outcome of a command whose configuration says where text, thread and tokens are in the JSON that it prints. */
import type { ExecutionOutcome, UsedTokens } from '../../../core/ports/backend.ts';
import { errorInfo } from '../../../model/errors.ts';
import { countsOf } from '../../../model/usage.ts';
import { isCount } from '../../../wire/dialects/json.ts';

/** Dotted paths into the JSON, such as `usage.input_tokens`; a number is the index of a list. */
export interface JsonOutput {
  readonly format: 'json';
  readonly text: string;
  readonly thread?: string | undefined;
  readonly usage?: { readonly input: string; readonly output: string } | undefined;
}

/** A longer thread could not be passed back as an argument. */
const MAX_THREAD_CHARS = 4096;

/** `json` is the output as it was written, and `value` the same after it was parsed. */
export function jsonOutcome(rule: JsonOutput, json: string, value: unknown): ExecutionOutcome {
  const usage = usageIn(rule, value);
  const text = valueAt(value, rule.text);
  if (typeof text !== 'string') return undeclared(`there is no text at "${rule.text}"`, usage);
  const thread = rule.thread === undefined ? undefined : valueAt(value, rule.thread);
  if (rule.thread !== undefined && !isThread(thread))
    return undeclared(`there is no thread at "${rule.thread}"`, usage);
  const threadText = thread === undefined ? '' : `"thread_id":${JSON.stringify(thread)},`;
  const resultText = `{"text":${JSON.stringify(text)},${threadText}"exit_code":0,"json":${json}}`;
  return { ok: true, resultText, ...(usage && { usage }) };
}

/** The failure of a command that did not print what its configuration declares. It has done its work: no retry. */
export function undeclared(what: string, usage?: UsedTokens): Extract<ExecutionOutcome, { ok: false }> {
  const message = `the command did not print the JSON that its configuration declares: ${what}`;
  const error = { ...errorInfo('WORKER_PROTOCOL', message), retriable: false };
  return { ok: false, error, ...(usage && { usage }) };
}

const isThread = (value: unknown): boolean =>
  typeof value === 'string' && value !== '' && value.length <= MAX_THREAD_CHARS;

/** Undefined where a count is missing or is no count: nothing that a command prints may become a credit. */
function usageIn({ usage: paths }: JsonOutput, value: unknown): UsedTokens | undefined {
  if (!paths) return undefined;
  const [input, output] = [valueAt(value, paths.input), valueAt(value, paths.output)];
  if (!isCount(input) || !isCount(output)) return undefined;
  return { ...countsOf({ prompt_tokens: input, completion_tokens: output }), decodeMs: 0 };
}

function valueAt(value: unknown, path: string): unknown {
  let found = value;
  for (const name of path.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[name];
  }
  return found;
}
