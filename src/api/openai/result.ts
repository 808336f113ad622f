/** The result of a job as an answer: what a worker says, and whatever another backend may say instead. */
import { Compile } from 'typebox/compile';
import { OrchdError } from '../../model/errors.ts';
import { ExecutionResult, ToolCall, Usage } from '../../model/worker-wire.ts';

export interface UsageAnswer {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

export interface Completed {
  /** Undefined where only what was said on the way tells it. */
  readonly text: string | undefined;
  readonly finishReason: string;
  readonly toolCalls: readonly ToolCall[];
  readonly usage: UsageAnswer;
}

/** What only a worker's result has. */
const WORKERS = ['finish_reason', 'tool_calls', 'embeddings', 'usage'] as const;

const isResult = Compile(ExecutionResult);
const isToolCall = Compile(ToolCall);
const isUsage = Compile(Usage);

/** `tokens` is the number of pieces that were heard: the measure where the backend has none. */
export function completedOf(result: unknown, tokens: number): Completed {
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

/** As many as were asked for, all of one length. */
export function embeddingsOf(
  result: unknown,
  asked: { readonly inputs: number; readonly dimensions: number | undefined },
): { readonly embeddings: readonly (readonly number[])[]; readonly usage: UsageAnswer } {
  const { embeddings, usage } = isResult.Check(result) ? result : ({} as ExecutionResult);
  if (embeddings === undefined)
    throw new OrchdError('UNSUPPORTED', 'the engine behind this model made no embeddings', {
      field: 'model',
    });
  if (embeddings.length !== asked.inputs)
    throw new OrchdError('WORKER_PROTOCOL', 'the backend made another number of embeddings than asked for');
  const { dimensions } = asked;
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
  // A worker's answer may hold no text at all; anything else is better shown than kept back.
  const isWithoutText = result === undefined || result === null || WORKERS.some((name) => name in fields);
  return tokens > 0 || isWithoutText ? undefined : JSON.stringify(result);
}

function usageOf(usage: unknown, tokens: number): UsageAnswer {
  const { prompt_tokens, completion_tokens } = isUsage.Check(usage)
    ? usage
    : { prompt_tokens: 0, completion_tokens: tokens };
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
