/** Formats answers as OpenAI does: whole JSON bodies, and the chunks of streams. */
import { newMeter, pieceEnd } from '../../kit/json-writer.ts';
import type { Sliced, SliceMeter } from '../../kit/slices.ts';
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
  /** What the model thinks before it answers; empty for completions, which have no place for it. */
  reasoning(text: string): string;
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
  whole: ({ jobId, created, model }, text, { finishReason, toolCalls, usage, reasoning = '' }) => {
    const message = {
      role: 'assistant' as const,
      content: text === '' && toolCalls.length > 0 ? null : text,
      refusal: null,
      ...(reasoning !== '' && { reasoning_content: reasoning }),
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
      reasoning: (text) => `${before}"delta":{"reasoning_content":${JSON.stringify(text)}${unfinished}`,
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
      reasoning: () => '',
      toolCalls: () => '',
      last: (reason) => `${start}"","logprobs":null,"finish_reason":${JSON.stringify(reason)}${after}`,
      usage: (usage) => event({ ...fields, choices: [], usage }),
    };
  },
};

/** A long text is sent in several chunks, and so are many tool calls, or long ones. */
const CALLS_PER_CHUNK = 100;
const CHARS_PER_CHUNK = 2 ** 16;

/** A text as chunks, each of which `chunk` makes. */
export function* textChunks(chunk: (text: string) => string, text: string): Sliced<string> {
  const parts: string[] = [];
  for (let start = 0; start < text.length; ) {
    const end = pieceEnd(text, start);
    parts.push(chunk(text.slice(start, end)));
    start = end;
    yield;
  }
  return parts.join('');
}

/** Complete tool calls in the format of a stream, each with its index. */
export function* toolCallChunks(chunks: AnswerChunks, calls: readonly ToolCall[]): Sliced<string> {
  const parts: string[] = [];
  for (let start = 0; start < calls.length; ) {
    const end = chunkEnd(calls, start);
    const some = calls.slice(start, end);
    parts.push(chunks.toolCalls(some.map((call, at) => ({ index: start + at, ...call }))));
    start = end;
    yield;
  }
  return parts.join('');
}

function chunkEnd(calls: readonly ToolCall[], start: number): number {
  let chars = 0;
  let end = start;
  while (end < calls.length && end - start < CALLS_PER_CHUNK && chars < CHARS_PER_CHUNK)
    chars += (calls[end++] as ToolCall).function.arguments.length;
  return end;
}

export function* embeddingList(
  model: string,
  embeddings: readonly (readonly number[])[],
  encoding: 'float' | 'base64',
  { prompt_tokens }: OpenAiUsage,
): Sliced<EmbeddingList> {
  const data: EmbeddingList['data'][number][] = [];
  const meter = newMeter();
  for (const [index, row] of embeddings.entries()) {
    const embedding = encoding === 'float' ? row : yield* base64Of(row, meter);
    data.push({ object: 'embedding', index, embedding });
    if (meter.spend(1)) yield;
  }
  return { object: 'list', data, model, usage: { prompt_tokens, total_tokens: prompt_tokens } };
}

/** Numbers that are encoded without a look at the meter; base64 makes 4 characters of 3 bytes, so it is a multiple of 3. */
const NUMBERS_PER_PIECE = 3 * 1024;
const NUMBERS_PER_UNIT = 30;

/** OpenAI's base64 encoding of an embedding: 32-bit floats, little-endian. */
function* base64Of(embedding: readonly number[], meter: SliceMeter): Sliced<string> {
  const pieces: string[] = [];
  for (let start = 0; start < embedding.length; start += NUMBERS_PER_PIECE) {
    const piece = embedding.slice(start, start + NUMBERS_PER_PIECE);
    const bytes = Buffer.allocUnsafe(piece.length * 4);
    piece.forEach((value, at) => {
      bytes.writeFloatLE(value, at * 4);
    });
    pieces.push(bytes.toString('base64'));
    if (meter.spend(1 + piece.length / NUMBERS_PER_UNIT)) yield;
  }
  return pieces.join('');
}
