/** The result of a job as the answer of a language model. A result is read as `/v1` reads it. */
import type {
  JSONObject,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4ToolCall,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from '@ai-sdk/provider';
import { Compile } from 'typebox/compile';
import type { JobOutput } from '../api/openai/collect-output.ts';
import type { JobResult } from '../api/openai/large-results.ts';
import { type CompletionResult, completionResultOf } from '../api/openai/result.ts';
import { atOnce } from '../kit/slices.ts';
import { type ToolCall, Usage } from '../model/worker-wire.ts';
import type { CallId } from './call-ids.ts';
import { NAMESPACE } from './warnings.ts';

/** What a job has come to. */
export interface EndedJob {
  readonly result: unknown;
  /** What all its tries have cost, where its model has a price. */
  readonly cost?: unknown;
}

export interface Answer {
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly LanguageModelV4ToolCall[];
  readonly finishReason: LanguageModelV4FinishReason;
  readonly usage: LanguageModelV4Usage;
  readonly providerMetadata: SharedV4ProviderMetadata;
}

/** Over HTTP a result always comes with its event, however large it is. */
export const resultOf = (result: JobResult): unknown => ('value' in result ? result.value : undefined);

/** `output` is what the events of the job said, for a result that does not repeat it. */
export function answerOf({ result, cost }: EndedJob, output: Omit<JobOutput, 'result'>, id: CallId): Answer {
  const completed = atOnce(completionResultOf(result, output.tokens));
  const metadata = { job_id: id.jobId, ...(cost !== undefined && { cost }), ...otherFields(result) };
  return {
    text: completed.text ?? output.text,
    reasoning: completed.reasoning ?? output.reasoning,
    toolCalls: completed.toolCalls.map((call, index) => toolCallOf(call, index, id)),
    finishReason: finishOf(completed),
    usage: usageOf(fieldsOf(result)['usage']),
    providerMetadata: { [NAMESPACE]: metadata as JSONObject },
  };
}

export function contentOf({ text, reasoning, toolCalls }: Answer): LanguageModelV4Content[] {
  return [
    ...(reasoning === '' ? [] : [{ type: 'reasoning', text: reasoning } as const]),
    ...(text === '' ? [] : [{ type: 'text', text } as const]),
    ...toolCalls,
  ];
}

/** Some servers give their calls no ids. The one that stands in is the same after a restart. */
export const callIdOf = (given: unknown, index: number, { mark }: CallId): string =>
  typeof given === 'string' && given !== '' ? given : `call-${mark}-${index}`;

function toolCallOf(call: ToolCall, index: number, id: CallId): LanguageModelV4ToolCall {
  const { id: given, type: _, function: called, ...fields } = call;
  return {
    type: 'tool-call',
    toolCallId: callIdOf(given, index, id),
    toolName: called.name,
    input: called.arguments.trim() === '' ? '{}' : called.arguments,
    // Comes back with the call in the next prompt: Gemini refuses calls without their signature.
    ...(Object.keys(fields).length > 0 && { providerMetadata: { [NAMESPACE]: fields as JSONObject } }),
  };
}

const FINISH_REASONS: ReadonlyMap<string, LanguageModelV4FinishReason['unified']> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool-calls'],
  ['content_filter', 'content-filter'],
]);

function finishOf({ finishReason: raw, toolCalls }: CompletionResult): LanguageModelV4FinishReason {
  // Some servers say `stop` although they ask for a tool.
  const asks = raw === 'stop' && toolCalls.length > 0;
  return { unified: asks ? 'tool-calls' : (FINISH_REASONS.get(raw) ?? 'other'), raw };
}

const isUsage = Compile(Usage);

/** A count that the backend did not tell is undefined, and no zero. */
function usageOf(value: unknown): LanguageModelV4Usage {
  if (!isUsage.Check(value)) {
    return {
      inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: undefined, text: undefined, reasoning: undefined },
    };
  }
  const { prompt_tokens: input, completion_tokens: output } = value;
  const { cache_read_tokens: read, cache_write_tokens: written, reasoning_tokens: reasoning } = value;
  return {
    inputTokens: {
      total: input,
      noCache: Math.max(0, input - (read ?? 0) - (written ?? 0)),
      cacheRead: read,
      cacheWrite: written,
    },
    outputTokens: {
      total: output,
      text: reasoning === undefined ? undefined : Math.max(0, output - reasoning),
      reasoning,
    },
    raw: value as JSONObject,
  };
}

/** Fields of a worker's result that an answer has a place for. */
const KNOWN: ReadonlySet<string> = new Set(['text', 'reasoning', 'finish_reason', 'tool_calls', 'usage']);

/** Everything else that a worker has returned beside its text, such as `thread_id`; nothing of other backends, whose whole result is the text. */
function otherFields(result: unknown): object {
  const fields = fieldsOf(result);
  if (!Object.keys(fields).some((name) => KNOWN.has(name))) return {};
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !KNOWN.has(name)));
}

const fieldsOf = (result: unknown): Readonly<Record<string, unknown>> =>
  typeof result === 'object' && result !== null && !Array.isArray(result)
    ? (result as Record<string, unknown>)
    : {};
