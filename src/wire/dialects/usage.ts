/**
 * Reads what a provider says that it has used, in the spellings of OpenAI's, Anthropic's and Gemini's APIs and of servers
 * that imitate them. Money depends on it, so that nothing a provider says may become a credit:
 *
 * U1  A usage without a count of the input or of the output is unknown, and so is one with any count that is not a whole
 *     number from 0 up. Null is the same as absent. Without a known usage, what was reserved for the call counts.
 * U2  Of numbers that contradict each other the larger one counts: a total that exceeds its parts (servers that leave
 *     reasoning out of the output), and cached tokens that exceed the prompt (servers that leave them out of it).
 * U3  A usage that is told again replaces the one before, also if it cannot be read. Anthropic's counts are cumulative:
 *     there a count never falls.
 * U4  Counts above what was asked for are believed.
 */
import type { Usage } from '../../model/worker-wire.ts';
import { fieldsOf, isCount, isObject, type JsonObject } from './json.ts';

type Counts<Name extends string> = Readonly<Record<Name, number | undefined>>;

/** The counts by their names; undefined where one of them cannot be read (U1). */
function countsIn<Name extends string>(given: Readonly<Record<Name, unknown>>): Counts<Name> | undefined {
  const values = Object.values(given).filter((value) => value !== undefined && value !== null);
  if (!values.every(isCount)) return undefined;
  const read = Object.entries(given).map(([name, value]) => [name, value ?? undefined]);
  return Object.fromEntries(read) as Counts<Name>;
}

/** Whether a message of a provider says anything about the usage (U3). */
export const tellsUsage = (value: unknown): boolean => isObject(value) && Object.keys(value).length > 0;

/** The usage of OpenAI's chat, completions, embeddings and responses. */
export function openAiUsage(value: unknown): Usage | undefined {
  const fields = fieldsOf(value);
  const inputs = fieldsOf(fields['prompt_tokens_details'] ?? fields['input_tokens_details']);
  const outputs = fieldsOf(fields['completion_tokens_details'] ?? fields['output_tokens_details']);
  const counts = countsIn({
    input: fields['prompt_tokens'] ?? fields['input_tokens'],
    output: fields['completion_tokens'] ?? fields['output_tokens'],
    total: fields['total_tokens'],
    // The second spellings are those of DeepSeek and of proxies in front of Anthropic.
    read: inputs['cached_tokens'] ?? fields['prompt_cache_hit_tokens'] ?? fields['cache_read_input_tokens'],
    written: inputs['cache_write_tokens'] ?? fields['cache_creation_input_tokens'],
    reasoning: outputs['reasoning_tokens'],
  });
  if (counts?.input === undefined || (counts.output === undefined && counts.total === undefined))
    return undefined;
  const { read, written, reasoning, output = 0, total = 0 } = counts;
  const cached = (read ?? 0) + (written ?? 0);
  const input = cached > counts.input ? counts.input + cached : counts.input;
  return usage({ input, output: Math.max(output, total - input), read, written, reasoning });
}

/** The usage of Anthropic's messages, whose input is without what was read from a cache or written to one. */
export function anthropicUsage(value: unknown): Usage | undefined {
  const fields = fieldsOf(value);
  const counts = countsIn({
    input: fields['input_tokens'],
    output: fields['output_tokens'],
    read: fields['cache_read_input_tokens'],
    written: fields['cache_creation_input_tokens'],
    reasoning: fieldsOf(fields['output_tokens_details'])['thinking_tokens'],
  });
  if (counts?.input === undefined || counts.output === undefined) return undefined;
  const { read, written, reasoning, output } = counts;
  return usage({ input: counts.input + (read ?? 0) + (written ?? 0), output, read, written, reasoning });
}

/**
 * The usage of Gemini, whose counts of what the model thinks are beside those of its answer. Counts of zero are left out,
 * so that the total stands in for the output. Counts of a stream are cumulative, and the last ones are whole.
 */
export function geminiUsage(value: unknown): Usage | undefined {
  const fields = fieldsOf(value);
  const counts = countsIn({
    prompt: fields['promptTokenCount'],
    // What tools of the provider have put into the prompt.
    tools: fields['toolUsePromptTokenCount'],
    answer: fields['candidatesTokenCount'],
    reasoning: fields['thoughtsTokenCount'],
    total: fields['totalTokenCount'],
    read: fields['cachedContentTokenCount'],
  });
  if (counts?.prompt === undefined) return undefined;
  const { tools = 0, answer, reasoning, total, read } = counts;
  if (answer === undefined && reasoning === undefined && total === undefined) return undefined;
  const prompt = (read ?? 0) > counts.prompt ? counts.prompt + (read ?? 0) : counts.prompt;
  const input = prompt + tools;
  const output = Math.max((answer ?? 0) + (reasoning ?? 0), (total ?? 0) - input);
  return usage({ input, output, read, written: undefined, reasoning });
}

/** Anthropic's counts after an event of a stream has told some of them anew (U3). */
export function laterCounts(before: JsonObject, told: JsonObject): JsonObject {
  const counts: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(told)) {
    const known = counts[name];
    if (value === null || value === undefined) continue;
    counts[name] = isCount(value) && isCount(known) ? Math.max(value, known) : value;
  }
  return counts;
}

/** A usage of a call that has not ended: should it end early, the provider charges for more than this. */
export const partOf = (usage: Usage | undefined): Usage | undefined => usage && { ...usage, partial: true };

interface ReadCounts {
  readonly input: number;
  readonly output: number;
  readonly read: number | undefined;
  readonly written: number | undefined;
  readonly reasoning: number | undefined;
}

/** Undefined for sums that no number can hold. */
function usage({ input, output, read, written, reasoning }: ReadCounts): Usage | undefined {
  if (!isCount(input) || !isCount(output)) return undefined;
  return {
    prompt_tokens: input,
    completion_tokens: output,
    ...(read !== undefined && { cache_read_tokens: read }),
    ...(written !== undefined && { cache_write_tokens: written }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  };
}
