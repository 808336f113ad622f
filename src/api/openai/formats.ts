/** Formats answers as OpenAI does: whole JSON bodies, and the chunks of streams. */
import type { ChatCompletion, EmbeddingList, TextCompletion } from '../../model/http/openai.ts';
import type { ToolCall } from '../../model/worker-wire.ts';
import type { CompletionResult, OpenAiUsage } from './result.ts';

/** The fields that the whole answer and each of its chunks repeat. */
export interface CompletionHead {
  readonly jobId: string;
  /** Unix time in seconds. */
  readonly created: number;
  readonly model: string;
}

/** Formats the chunks of one stream as SSE text. The fields that all chunks repeat are serialised only once. */
export interface AnswerChunks {
  /** Sent before the first text or tool call; empty for completions. */
  readonly first: string;
  text(text: string): string;
  toolCalls(calls: readonly unknown[]): string;
  last(finishReason: string): string;
  usage(usage: OpenAiUsage): string;
}

export interface OpenAiFormat<Whole> {
  whole(head: CompletionHead, text: string, completed: CompletionResult): Whole;
  chunks(head: CompletionHead, includeUsage: boolean): AnswerChunks;
}

const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

/**
 * The text before and after the part that differs between chunks. With `includeUsage` each chunk carries
 * `"usage":null`, as OpenAI requires; only the separate usage chunk at the end has the numbers.
 */
function chunkFrame(
  fields: object,
  includeUsage: boolean,
): { readonly before: string; readonly after: string } {
  const before = `data: ${JSON.stringify(fields).slice(0, -1)},"choices":[{"index":0,`;
  return { before, after: `}]${includeUsage ? ',"usage":null' : ''}}\n\n` };
}

export const CHAT_FORMAT: OpenAiFormat<ChatCompletion> = {
  whole: ({ jobId, created, model }, text, { finishReason, toolCalls, usage }) => {
    const message = {
      role: 'assistant' as const,
      content: text === '' && toolCalls.length > 0 ? null : text,
      refusal: null,
      ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
    };
    return {
      id: `chatcmpl-${jobId}`,
      object: 'chat.completion',
      created,
      model,
      choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
      usage,
    };
  },
  chunks: ({ jobId, created, model }, includeUsage) => {
    const fields = { id: `chatcmpl-${jobId}`, object: 'chat.completion.chunk', created, model };
    const { before, after } = chunkFrame(fields, includeUsage);
    const unfinished = `},"logprobs":null,"finish_reason":null${after}`;
    const start = `${before}"delta":{"content":`;
    return {
      first: `${before}"delta":{"role":"assistant","content":""${unfinished}`,
      text: (text) => start + JSON.stringify(text) + unfinished,
      toolCalls: (calls) => `${before}"delta":{"tool_calls":${JSON.stringify(calls)}${unfinished}`,
      last: (reason) =>
        `${before}"delta":{},"logprobs":null,"finish_reason":${JSON.stringify(reason)}${after}`,
      usage: (usage) => event({ ...fields, choices: [], usage }),
    };
  },
};

export const COMPLETION_FORMAT: OpenAiFormat<TextCompletion> = {
  whole: ({ jobId, created, model }, text, { finishReason, usage }) => ({
    id: `cmpl-${jobId}`,
    object: 'text_completion',
    created,
    model,
    choices: [{ index: 0, text, logprobs: null, finish_reason: finishReason }],
    usage,
  }),
  chunks: ({ jobId, created, model }, includeUsage) => {
    const fields = { id: `cmpl-${jobId}`, object: 'text_completion', created, model };
    const { before, after } = chunkFrame(fields, includeUsage);
    const unfinished = `,"logprobs":null,"finish_reason":null${after}`;
    const start = `${before}"text":`;
    return {
      first: '',
      text: (text) => start + JSON.stringify(text) + unfinished,
      toolCalls: () => '',
      last: (reason) => `${start}"","logprobs":null,"finish_reason":${JSON.stringify(reason)}${after}`,
      usage: (usage) => event({ ...fields, choices: [], usage }),
    };
  },
};

/** Complete tool calls in the format of a stream, each with its index. */
export const toolCallDeltas = (calls: readonly ToolCall[]): readonly object[] =>
  calls.map((call, index) => ({ index, ...call }));

export function embeddingList(
  model: string,
  embeddings: readonly (readonly number[])[],
  encoding: 'float' | 'base64',
  { prompt_tokens }: OpenAiUsage,
): EmbeddingList {
  const data = embeddings.map((embedding, index) => ({
    object: 'embedding' as const,
    index,
    embedding: encoding === 'float' ? embedding : base64Of(embedding),
  }));
  return { object: 'list', data, model, usage: { prompt_tokens, total_tokens: prompt_tokens } };
}

/** OpenAI's base64 encoding of an embedding: 32-bit floats, little-endian. */
function base64Of(embedding: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(embedding.length * 4);
  embedding.forEach((value, at) => {
    bytes.writeFloatLE(value, at * 4);
  });
  return bytes.toString('base64');
}
