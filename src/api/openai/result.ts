/**
 * Reads the result of a job for an answer in OpenAI's format, in slices: it may have a million numbers. A worker's result
 * has the fields of ExecutionResult; other backends may return any JSON value.
 */
import { Compile } from 'typebox/compile';
import { newMeter, textInSlices } from '../../kit/json-writer.ts';
import type { Sliced, SliceMeter } from '../../kit/slices.ts';
import { OrchdError } from '../../model/errors.ts';
import { ToolCall, Usage } from '../../model/worker-wire.ts';

export interface OpenAiUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
}

export interface CompletionResult {
  /** Undefined if the result has no text; the text is then what the token events contained. */
  readonly text: string | undefined;
  /** What the model has thought; undefined if the result does not have it. */
  readonly reasoning: string | undefined;
  readonly finishReason: string;
  readonly toolCalls: readonly ToolCall[];
  readonly usage: OpenAiUsage;
}

/** A result with any of these fields is a worker's, even if it has no `text`. */
const WORKER_RESULT_FIELDS = ['finish_reason', 'tool_calls', 'embeddings', 'usage'] as const;

const isToolCall = Compile(ToolCall);
const isUsage = Compile(Usage);

/** Work to check one tool call, in the units of a meter. */
const TOOL_CALL_UNITS = 2;
/** Numbers that are checked in one unit of work. */
const NUMBERS_PER_UNIT = 50;
/** Numbers that are checked without a look at the meter. */
const NUMBERS_PER_CHECK = 4096;

/** `tokens` is the number of token events received; it is the completion usage of a backend that reports none. */
export function* completionResultOf(result: unknown, tokens: number): Sliced<CompletionResult> {
  const fields = fieldsOf(result);
  const toolCalls = yield* toolCallsOf(fields['tool_calls']);
  const reason = fields['finish_reason'];
  return {
    text: yield* textOf(result, fields, tokens),
    reasoning: typeof fields['reasoning'] === 'string' ? fields['reasoning'] : undefined,
    finishReason: typeof reason === 'string' ? reason : toolCalls.length > 0 ? 'tool_calls' : 'stop',
    toolCalls,
    usage: usageIn(fields['usage'], tokens),
  };
}

function* toolCallsOf(calls: unknown): Sliced<readonly ToolCall[]> {
  const found: ToolCall[] = [];
  if (!Array.isArray(calls)) return found;
  const meter = newMeter();
  for (const call of calls) {
    if (isToolCall.Check(call)) found.push(call);
    if (meter.spend(TOOL_CALL_UNITS)) yield;
  }
  return found;
}

type Embeddings = readonly (readonly number[])[];

/** Throws unless the result has one embedding for each input, of the requested length if one was requested. */
export function* embeddingsOf(
  result: unknown,
  expected: { readonly inputs: number; readonly dimensions: number | undefined },
): Sliced<{ readonly embeddings: Embeddings; readonly usage: OpenAiUsage }> {
  const { embeddings, usage } = fieldsOf(result);
  if (!(yield* areEmbeddings(embeddings)))
    throw new OrchdError('UNSUPPORTED', 'the engine behind this model made no embeddings', {
      field: 'model',
    });
  const found = embeddings as Embeddings;
  if (found.length !== expected.inputs)
    throw new OrchdError(
      'WORKER_PROTOCOL',
      `the backend returned ${found.length} embeddings for ${expected.inputs} inputs`,
    );
  const { dimensions } = expected;
  if (dimensions !== undefined && found.some(({ length }) => length !== dimensions)) {
    const message = `the embeddings of this model have ${found[0]?.length} dimensions`;
    throw new OrchdError('UNSUPPORTED', message, { field: 'dimensions' });
  }
  return { embeddings: found, usage: usageIn(usage, 0) };
}

function* areEmbeddings(value: unknown): Sliced<boolean> {
  if (!Array.isArray(value)) return false;
  const meter = newMeter();
  for (const row of value) if (!Array.isArray(row) || !(yield* areNumbers(row, meter))) return false;
  return true;
}

function* areNumbers(row: readonly unknown[], meter: SliceMeter): Sliced<boolean> {
  for (let start = 0; start < row.length; start += NUMBERS_PER_CHECK) {
    const end = Math.min(start + NUMBERS_PER_CHECK, row.length);
    for (let at = start; at < end; at++) if (!Number.isFinite(row[at])) return false;
    if (meter.spend(1 + (end - start) / NUMBERS_PER_UNIT)) yield;
  }
  return true;
}

function fieldsOf(result: unknown): Readonly<Record<string, unknown>> {
  return typeof result === 'object' && result !== null ? (result as Record<string, unknown>) : {};
}

function* textOf(
  result: unknown,
  fields: Readonly<Record<string, unknown>>,
  tokens: number,
): Sliced<string | undefined> {
  if (typeof result === 'string') return result;
  if (typeof fields['text'] === 'string') return fields['text'];
  // A worker's result may have no text, a tool call for example. Any other JSON value is shown as its own text.
  const isWithoutText =
    result === undefined || result === null || WORKER_RESULT_FIELDS.some((name) => name in fields);
  return tokens > 0 || isWithoutText ? undefined : yield* textInSlices(result);
}

/** `tokens` is the completion usage where none was reported. */
export function usageIn(usage: unknown, tokens: number): OpenAiUsage {
  const known: Usage = isUsage.Check(usage) ? usage : { prompt_tokens: 0, completion_tokens: tokens };
  const { prompt_tokens, completion_tokens, cache_read_tokens: cached, reasoning_tokens: reasoning } = known;
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    ...(cached !== undefined && { prompt_tokens_details: { cached_tokens: cached } }),
    ...(reasoning !== undefined && { completion_tokens_details: { reasoning_tokens: reasoning } }),
  };
}
