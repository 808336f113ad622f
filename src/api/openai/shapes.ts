/** Answers in the shapes of OpenAI: whole ones, and the pieces of streams. */
import type { ChatCompletion, EmbeddingList, TextCompletion } from '../../model/http/openai.ts';
import type { ToolCall } from '../../model/worker-wire.ts';
import type { Completed, UsageAnswer } from './result.ts';

/** What every piece of one answer repeats. */
export interface Head {
  readonly jobId: string;
  /** In seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

/** The pieces of one stream as text. What is the same in all of them is made once. */
export interface Pieces {
  /** Before anything is said. */
  readonly first: string;
  text(text: string): string;
  toolCalls(calls: readonly unknown[]): string;
  last(finishReason: string): string;
  usage(usage: UsageAnswer): string;
}

export interface Shape<Whole> {
  whole(head: Head, text: string, completed: Completed): Whole;
  pieces(head: Head, includeUsage: boolean): Pieces;
}

const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;

/** The text around what differs between the pieces; where usage is wanted all but the last say that they have none. */
function around(fields: object, includeUsage: boolean): { readonly before: string; readonly after: string } {
  const before = `data: ${JSON.stringify(fields).slice(0, -1)},"choices":[{"index":0,`;
  return { before, after: `}]${includeUsage ? ',"usage":null' : ''}}\n\n` };
}

export const CHAT: Shape<ChatCompletion> = {
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
  pieces: ({ jobId, created, model }, includeUsage) => {
    const fields = { id: `chatcmpl-${jobId}`, object: 'chat.completion.chunk', created, model };
    const { before, after } = around(fields, includeUsage);
    const going = `},"logprobs":null,"finish_reason":null${after}`;
    const start = `${before}"delta":{"content":`;
    return {
      first: `${before}"delta":{"role":"assistant","content":""${going}`,
      text: (text) => start + JSON.stringify(text) + going,
      toolCalls: (calls) => `${before}"delta":{"tool_calls":${JSON.stringify(calls)}${going}`,
      last: (reason) =>
        `${before}"delta":{},"logprobs":null,"finish_reason":${JSON.stringify(reason)}${after}`,
      usage: (usage) => event({ ...fields, choices: [], usage }),
    };
  },
};

export const COMPLETION: Shape<TextCompletion> = {
  whole: ({ jobId, created, model }, text, { finishReason, usage }) => ({
    id: `cmpl-${jobId}`,
    object: 'text_completion',
    created,
    model,
    choices: [{ index: 0, text, logprobs: null, finish_reason: finishReason }],
    usage,
  }),
  pieces: ({ jobId, created, model }, includeUsage) => {
    const fields = { id: `cmpl-${jobId}`, object: 'text_completion', created, model };
    const { before, after } = around(fields, includeUsage);
    const going = `,"logprobs":null,"finish_reason":null${after}`;
    const start = `${before}"text":`;
    return {
      first: '',
      text: (text) => start + JSON.stringify(text) + going,
      toolCalls: () => '',
      last: (reason) => `${start}"","logprobs":null,"finish_reason":${JSON.stringify(reason)}${after}`,
      usage: (usage) => event({ ...fields, choices: [], usage }),
    };
  },
};

/** Whole calls as a stream would have brought them. */
export const asDeltas = (calls: readonly ToolCall[]): readonly object[] =>
  calls.map((call, index) => ({ index, ...call }));

export function embeddingList(
  model: string,
  embeddings: readonly (readonly number[])[],
  encoding: 'float' | 'base64',
  { prompt_tokens }: UsageAnswer,
): EmbeddingList {
  const data = embeddings.map((embedding, index) => ({
    object: 'embedding' as const,
    index,
    embedding: encoding === 'float' ? embedding : base64Of(embedding),
  }));
  return { object: 'list', data, model, usage: { prompt_tokens, total_tokens: prompt_tokens } };
}

/** 32-bit numbers, the lowest byte first. */
function base64Of(embedding: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(embedding.length * 4);
  embedding.forEach((value, at) => {
    bytes.writeFloatLE(value, at * 4);
  });
  return bytes.toString('base64');
}
