/**
 * The dialect of `/v1/chat/completions`, `/v1/completions` and `/v1/embeddings`, which OpenAI and most servers speak. Our
 * own requests have the same form, so that they are passed on nearly unchanged.
 */
import type { OrchdError } from '../../model/errors.ts';
import type { AnswerPiece, InferenceRequest } from '../../model/inference.ts';
import type { ExecutionResult, ToolCall, Usage } from '../../model/worker-wire.ts';
import { streamError } from './errors.ts';
import { fieldsOf, type JsonObject, listOf, objectOf, textOr } from './json.ts';
import { protocolError } from './protocol-error.ts';
import { openAiUsage, partOf, tellsUsage } from './usage.ts';

/** The longest answer: one that never ends must not fill the memory. */
export const MAX_ANSWER_CHARS = 16 * 2 ** 20;
const MAX_CALLS = 128;

/** The fields of a request that are passed on; the others are not for the server. */
const PASSED_FIELDS = [
  'prompt',
  'messages',
  'input',
  'max_tokens',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'seed',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'reasoning_effort',
] as const;

/** The body of a call, with fields in `more` that only this call has. */
export function chatBody({ body }: InferenceRequest, model: string, more: JsonObject): JsonObject {
  const fields = body as JsonObject;
  const passed = PASSED_FIELDS.flatMap((name) => {
    const value = fields[name];
    return value === undefined || value === null ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(passed), model, ...more };
}

/** The end of a stream of chunks. */
export const DONE = '[DONE]';

const FINISH_REASONS: ReadonlyMap<string, NonNullable<ExecutionResult['finish_reason']>> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
]);

interface PartialToolCall {
  id: string;
  name: string;
  arguments: string;
}

export interface AnswerListener {
  emit(piece: AnswerPiece): void;
  /** Undefined: the provider has told something that cannot be read. */
  noteUsage(usage: Usage | undefined): void;
}

/** Assembles an answer from the chunks of its stream. */
export class StreamedAnswer {
  readonly #listener: AnswerListener;
  readonly #errorOf: (error: unknown, hasBegun: boolean) => OrchdError;
  readonly #calls: PartialToolCall[] = [];
  #text = '';
  #reasoning = '';
  #chars = 0;
  #finish: ExecutionResult['finish_reason'];
  #usage: Usage | undefined;
  #hasCounted = false;

  constructor(
    listener: AnswerListener,
    errorOf: (error: unknown, hasBegun: boolean) => OrchdError = streamError,
  ) {
    this.#listener = listener;
    this.#errorOf = errorOf;
  }

  /** Whether a chunk with a finish reason has come. */
  get finished(): boolean {
    return this.#finish !== undefined;
  }

  /** Adds the `data` of one server-sent event. */
  addChunk(data: string): void {
    const chunk = objectOf(data);
    if (chunk['error'] !== undefined && chunk['error'] !== null)
      throw this.#errorOf(chunk['error'], this.#hasBegun());
    const { choices } = chunk;
    if (!Array.isArray(choices)) throw protocolError('sent a piece without choices');
    this.#addChoice(choices[0] as JsonObject | undefined);
    this.#noteUsage(chunk['usage']);
  }

  #addChoice(choice: JsonObject | undefined): void {
    if (!choice) return;
    const delta = (choice['delta'] ?? {}) as JsonObject;
    this.#addReasoning(delta['reasoning_content'] ?? delta['reasoning']);
    this.#addText(choice['text'] ?? delta['content'] ?? delta['refusal']);
    this.#addCalls(delta['tool_calls']);
    const reason = choice['finish_reason'];
    if (typeof reason === 'string') this.#finish = FINISH_REASONS.get(reason) ?? 'stop';
  }

  result(): ExecutionResult {
    const calls = this.#calls.map((call) => toolCall(call.id, call.name, call.arguments));
    return resultOf({
      text: this.#text,
      reasoning: this.#reasoning,
      finish: this.#finish ?? 'stop',
      calls,
      usage: this.#usage,
    });
  }

  #hasBegun(): boolean {
    return this.#chars > 0 || this.#hasCounted;
  }

  /** What comes before the finish reason is only a part of what is charged, should nothing follow it. */
  #noteUsage(told: unknown): void {
    if (!tellsUsage(told)) return;
    this.#hasCounted = true;
    this.#usage = openAiUsage(told);
    this.#listener.noteUsage(this.finished ? this.#usage : partOf(this.#usage));
  }

  #addText(text: unknown): void {
    if (text === undefined || text === null || text === '') return;
    if (typeof text !== 'string') throw protocolError('sent something else than text');
    this.#grow(text.length);
    this.#text += text;
    this.#listener.emit({ text });
  }

  #addReasoning(reasoning: unknown): void {
    if (typeof reasoning !== 'string' || reasoning === '') return;
    this.#grow(reasoning.length);
    this.#reasoning += reasoning;
    this.#listener.emit({ reasoning });
  }

  #addCalls(deltas: unknown): void {
    if (deltas === undefined || deltas === null) return;
    if (!Array.isArray(deltas)) throw protocolError('sent calls that are no list');
    for (const delta of deltas) this.#addCall((delta ?? {}) as JsonObject);
    if (deltas.length > 0) this.#listener.emit({ toolCalls: deltas });
  }

  #addCall(delta: JsonObject): void {
    const index = Number(delta['index'] ?? 0);
    if (!Number.isInteger(index) || index < 0 || index > this.#calls.length || index >= MAX_CALLS) {
      throw protocolError('sent a call out of its place');
    }
    const called = (delta['function'] ?? {}) as JsonObject;
    const call = this.#calls[index] ?? { id: '', name: '', arguments: '' };
    this.#calls[index] = call;
    call.id ||= textOr(delta['id']);
    call.name ||= textOr(called['name']);
    call.arguments += textOr(called['arguments']);
    this.#grow(textOr(called['arguments']).length + 1);
  }

  #grow(chars: number): void {
    this.#chars += chars;
    if (this.#chars > MAX_ANSWER_CHARS) throw protocolError('sent an answer that is too long');
  }
}

/** The parts of a result in any dialect. */
export interface AnswerParts {
  readonly text: string;
  readonly reasoning: string;
  readonly finish: NonNullable<ExecutionResult['finish_reason']>;
  readonly calls: readonly ToolCall[];
  readonly usage: Usage | undefined;
}

export const resultOf = ({ text, reasoning, finish, calls, usage }: AnswerParts): ExecutionResult => ({
  text,
  finish_reason: finish,
  ...(reasoning !== '' && { reasoning }),
  ...(calls.length > 0 && { tool_calls: [...calls] }),
  ...(usage && { usage }),
});

export const toolCall = (id: string, name: string, given: string): ToolCall => ({
  id,
  type: 'function',
  function: { name, arguments: given },
});

/** Emits a whole result as pieces, for an answer that was not streamed. */
export function emitWhole(result: ExecutionResult, emit: (piece: AnswerPiece) => void): void {
  const { text = '', reasoning = '', tool_calls: calls = [] } = result;
  if (reasoning !== '') emit({ reasoning });
  if (text !== '') emit({ text });
  if (calls.length > 0) emit({ toolCalls: calls.map((call, index) => ({ index, ...call })) });
}

/** The result in a whole chat completion, such as one that the provider has stored. */
export function completionResult(completion: JsonObject): ExecutionResult {
  const choice = listOf(completion['choices'])[0];
  if (choice === undefined) throw protocolError('has an answer without choices');
  const { message, finish_reason: reason } = fieldsOf(choice);
  const { content, refusal, reasoning_content: reasoning, tool_calls: calls } = fieldsOf(message);
  return resultOf({
    text: textOr(content ?? refusal),
    reasoning: textOr(reasoning),
    finish: FINISH_REASONS.get(textOr(reason)) ?? 'stop',
    calls: listOf(calls).map((call) => {
      const { id, function: called } = fieldsOf(call);
      const { name, arguments: given } = fieldsOf(called);
      return toolCall(textOr(id), textOr(name), textOr(given));
    }),
    usage: openAiUsage(completion['usage']),
  });
}

/** The rows of an answer to `/v1/embeddings`, in the order of the texts. */
export function embeddingRows(data: unknown, count: number): number[][] {
  if (!Array.isArray(data) || data.length !== count) throw protocolError('sent another number of embeddings');
  const rows = new Array<number[]>(count);
  data.forEach((item: unknown, at) => {
    const { embedding, index } = (item ?? {}) as { embedding?: unknown; index?: unknown };
    if (!Array.isArray(embedding) || !embedding.every((value) => Number.isFinite(value))) {
      throw protocolError('sent an embedding that is not a list of numbers');
    }
    rows[Number.isInteger(index) ? (index as number) : at] = embedding as number[];
  });
  if (Object.keys(rows).length !== count || rows.length !== count) {
    throw protocolError('sent embeddings out of their places');
  }
  return rows;
}
