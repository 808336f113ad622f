/**
 * Reads the result of a job for an answer in OpenAI's format. A worker's result has the fields of ExecutionResult;
 * other backends may return any JSON value.
 */
import { Compile } from 'typebox/compile';
import { OrchdError } from '../../model/errors.ts';
import { ExecutionResult, ToolCall, Usage } from '../../model/worker-wire.ts';

export interface OpenAiUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

export interface CompletionResult {
  /** Undefined if the result has no text; the text is then what the token events contained. */
  readonly text: string | undefined;
  readonly finishReason: string;
  readonly toolCalls: readonly ToolCall[];
  readonly usage: OpenAiUsage;
}

/** A result with any of these fields is a worker's, even if it has no `text`. */
const WORKER_RESULT_FIELDS = ['finish_reason', 'tool_calls', 'embeddings', 'usage'] as const;

const isResult = Compile(ExecutionResult);
const isToolCall = Compile(ToolCall);
const isUsage = Compile(Usage);

/** `tokens` is the number of token events received; it is the completion usage of a backend that reports none. */
export function completionResultOf(result: unknown, tokens: number): CompletionResult {
  const fields = fieldsOf(result);
  const toolCalls = Array.isArray(fields['tool_calls'])
    ? (fields['tool_calls'] as unknown[]).filter((call): call is ToolCall => isToolCall.Check(call))
    : [];
  const reason = fields['finish_reason'];
  return {
    text: textOf(result, fields, tokens),
    finishReason: typeof reason === 'string' ? reason : toolCalls.length > 0 ? 'tool_calls' : 'stop',
    toolCalls,
    usage: usageOf(fields['usage'], tokens),
  };
}

/** Throws unless the result has one embedding for each input, of the requested length if one was requested. */
export function embeddingsOf(
  result: unknown,
  expected: { readonly inputs: number; readonly dimensions: number | undefined },
): { readonly embeddings: readonly (readonly number[])[]; readonly usage: OpenAiUsage } {
  const { embeddings, usage } = isResult.Check(result) ? result : ({} as ExecutionResult);
  if (embeddings === undefined)
    throw new OrchdError('UNSUPPORTED', 'the engine behind this model made no embeddings', {
      field: 'model',
    });
  if (embeddings.length !== expected.inputs)
    throw new OrchdError(
      'WORKER_PROTOCOL',
      `the backend returned ${embeddings.length} embeddings for ${expected.inputs} inputs`,
    );
  const { dimensions } = expected;
  if (dimensions !== undefined && embeddings.some(({ length }) => length !== dimensions)) {
    const message = `the embeddings of this model have ${embeddings[0]?.length} dimensions`;
    throw new OrchdError('UNSUPPORTED', message, { field: 'dimensions' });
  }
  return { embeddings, usage: usageOf(usage, 0) };
}

function fieldsOf(result: unknown): Readonly<Record<string, unknown>> {
  return typeof result === 'object' && result !== null ? (result as Record<string, unknown>) : {};
}

function textOf(
  result: unknown,
  fields: Readonly<Record<string, unknown>>,
  tokens: number,
): string | undefined {
  if (typeof result === 'string') return result;
  if (typeof fields['text'] === 'string') return fields['text'];
  // A worker's result may have no text, a tool call for example. Any other JSON value is shown as its own text.
  const isWithoutText =
    result === undefined || result === null || WORKER_RESULT_FIELDS.some((name) => name in fields);
  return tokens > 0 || isWithoutText ? undefined : JSON.stringify(result);
}

function usageOf(usage: unknown, tokens: number): OpenAiUsage {
  const { prompt_tokens, completion_tokens } = isUsage.Check(usage)
    ? usage
    : { prompt_tokens: 0, completion_tokens: tokens };
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
