/** A request to a language model after it was checked, and the pieces of an answer: the same for every engine and provider. */
import type { HeardMessages } from './heard.ts';
import type { ExecuteRequest } from './worker-wire.ts';

export interface Tool {
  readonly name: string;
  readonly description: string | undefined;
  /** A JSON schema. */
  readonly parameters: Readonly<Record<string, unknown>> | undefined;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };

/** The form of the answer: `any` text, any `json` object, or what the schema describes. */
export type AnswerFormat = 'any' | 'json' | { readonly schema: Readonly<Record<string, unknown>> };

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly text: string;
  /** The tool calls of an assistant message. */
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  /** For a tool message: the id of the call whose result it is. */
  readonly callId: string | undefined;
}

export type Work =
  | { readonly kind: 'chat'; readonly messages: readonly ChatMessage[] }
  | { readonly kind: 'completion'; readonly prompt: string }
  | { readonly kind: 'embeddings'; readonly texts: readonly string[] };

export interface InferenceRequest {
  readonly jobId: string;
  readonly sessionId: string | undefined;
  readonly work: Work;
  readonly maxTokens: number | undefined;
  readonly temperature: number | undefined;
  readonly topP: number | undefined;
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice;
  readonly format: AnswerFormat;
  /** What the thread with the name `sessionId` has heard before; the messages of the request are new to it. */
  readonly heard?: HeardMessages | undefined;
  /** The body as received, for an engine that passes it on. */
  readonly body: ExecuteRequest;
}

/** A part of the answer: text, a delta of tool calls in OpenAI's form, or what the model thinks before it answers. */
export type AnswerPiece =
  | { readonly text: string }
  | { readonly toolCalls: readonly unknown[] }
  | { readonly reasoning: string };
