/** Assembles the answer of an OpenAI-compatible server from the chunks of its stream. */
import type { ExecutionResult, ToolCall, Usage } from '../../model/worker-wire.ts';
import type { AnswerPiece } from '../execution/engine.ts';
import { protocolError, streamError } from './openai-errors.ts';

/** The longest answer: one that never ends must not fill the memory. */
const MAX_ANSWER_CHARS = 16 * 2 ** 20;
const MAX_CALLS = 128;

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

type JsonObject = Readonly<Record<string, unknown>>;

export class StreamedAnswer {
  readonly #emit: (piece: AnswerPiece) => void;
  readonly #calls: PartialToolCall[] = [];
  #text = '';
  #chars = 0;
  #finish: ExecutionResult['finish_reason'];
  #usage: Usage | undefined;

  constructor(emit: (piece: AnswerPiece) => void) {
    this.#emit = emit;
  }

  /** Whether a chunk with a finish reason has come. */
  get finished(): boolean {
    return this.#finish !== undefined;
  }

  /** Adds the `data` of one server-sent event. */
  addChunk(data: string): void {
    const chunk = objectOf(data);
    if (chunk['error'] !== undefined && chunk['error'] !== null) throw streamError(chunk['error']);
    this.#usage = usageOf(chunk['usage']) ?? this.#usage;
    const { choices } = chunk;
    if (!Array.isArray(choices)) throw protocolError('sent a piece without choices');
    const choice = choices[0] as JsonObject | undefined;
    if (!choice) return;
    const delta = (choice['delta'] ?? {}) as JsonObject;
    this.#addText(choice['text'] ?? delta['content']);
    this.#addCalls(delta['tool_calls']);
    const reason = choice['finish_reason'];
    if (typeof reason === 'string') this.#finish = FINISH_REASONS.get(reason) ?? 'stop';
  }

  result(): ExecutionResult {
    const calls: ToolCall[] = this.#calls.map(({ id, name, arguments: given }) => ({
      id,
      type: 'function',
      function: { name, arguments: given },
    }));
    return {
      text: this.#text,
      finish_reason: this.#finish ?? 'stop',
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(this.#usage && { usage: this.#usage }),
    };
  }

  #addText(text: unknown): void {
    if (text === undefined || text === null || text === '') return;
    if (typeof text !== 'string') throw protocolError('sent something else than text');
    this.#grow(text.length);
    this.#text += text;
    this.#emit({ text });
  }

  #addCalls(deltas: unknown): void {
    if (deltas === undefined || deltas === null) return;
    if (!Array.isArray(deltas)) throw protocolError('sent calls that are no list');
    for (const delta of deltas) this.#addCall((delta ?? {}) as JsonObject);
    if (deltas.length > 0) this.#emit({ toolCalls: deltas });
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
    this.#grow(textOr(called['arguments']).length);
  }

  #grow(chars: number): void {
    this.#chars += chars;
    if (this.#chars > MAX_ANSWER_CHARS) throw protocolError('sent an answer that is too long');
  }
}

const textOr = (value: unknown): string => (typeof value === 'string' ? value : '');

export function objectOf(text: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw protocolError('sent something that is not JSON');
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw protocolError('sent something that is not an object');
}

export function usageOf(value: unknown): Usage | undefined {
  const { prompt_tokens: prompt, completion_tokens: completion } = (value ?? {}) as JsonObject;
  if (!isCount(prompt)) return undefined;
  return { prompt_tokens: prompt, completion_tokens: isCount(completion) ? completion : 0 };
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
