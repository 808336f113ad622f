/** Assembles the pieces of an answer from the stream of `/v1/responses`, or from the response that it ended with. */
import type { ExecutionResult } from '../../model/worker-wire.ts';
import { providerStreamError } from './errors.ts';
import { fieldsOf, type JsonObject, listOf, objectOf, textOr } from './json.ts';
import { type AnswerListener, MAX_ANSWER_CHARS } from './openai-chat.ts';
import { callsIn, hasEnded, reasoningIn, responseResult, textIn } from './openai-responses.ts';
import { protocolError } from './protocol-error.ts';
import { openAiUsage, partOf, tellsUsage } from './usage.ts';

/** Events that wait for one with a lower number. */
const MAX_WAITING = 1000;

/** A function call, as far as it was emitted. */
interface EmittedCall {
  readonly id: string;
  arguments: string;
}

export class ResponsesAnswer {
  readonly #listener: AnswerListener;
  /** Events that came before others with lower numbers. */
  readonly #waiting = new Map<number, JsonObject>();
  #next: number | undefined;
  /** The calls that were emitted, by the `output_index` of their items. */
  readonly #calls = new Map<number, EmittedCall>();
  #text = '';
  #reasoning = '';
  #chars = 0;
  #id: string | undefined;
  #response: JsonObject | undefined;

  constructor(listener: AnswerListener) {
    this.#listener = listener;
  }

  /** The provider's id of the response, once an event has named it. */
  get id(): string | undefined {
    return this.#id;
  }

  get ended(): boolean {
    return this.#response !== undefined;
  }

  /** Adds the `data` of one server-sent event. A number that has come before is left out. */
  add(data: string): void {
    const event = objectOf(data);
    this.#noteResponse(event);
    const number = event['sequence_number'];
    if (!Number.isSafeInteger(number)) return this.#apply(event);
    this.#next ??= event['type'] === 'response.created' ? (number as number) : 0;
    if ((number as number) < this.#next) return;
    this.#waiting.set(number as number, event);
    if (this.#waiting.size > MAX_WAITING) throw protocolError('sent events with numbers missing');
    for (let due = this.#take(this.#next); due; due = this.#take(this.#next)) {
      this.#next++;
      this.#apply(due);
    }
  }

  /** Takes the response that has ended, emits what its stream has not brought, and returns its result. */
  finish(response: JsonObject): ExecutionResult {
    if (tellsUsage(response['usage'])) this.#listener.noteUsage(openAiUsage(response['usage']));
    const result = responseResult(response);
    const output = listOf(response['output']).map(fieldsOf);
    this.#emitRest(output);
    return result;
  }

  /** The result of the stream, after it has ended. */
  result(): ExecutionResult {
    if (!this.#response) throw protocolError('ended its stream without an end', 'connection_lost');
    return this.finish(this.#response);
  }

  #take(number: number): JsonObject | undefined {
    const event = this.#waiting.get(number);
    this.#waiting.delete(number);
    return event;
  }

  /** What an event says about the whole response counts at once, whatever is missing before it. */
  #noteResponse(event: JsonObject): void {
    if (event['type'] === 'error') throw providerStreamError(errorOf(event), this.#hasBegun());
    const response = event['response'];
    if (response === undefined || response === null) return;
    const fields = fieldsOf(response);
    if (typeof fields['id'] === 'string') this.#id ??= fields['id'];
    const isLast = hasEnded(fields);
    const usage = openAiUsage(fields['usage']);
    if (tellsUsage(fields['usage'])) this.#listener.noteUsage(isLast ? usage : partOf(usage));
    if (isLast) this.#response = fields;
  }

  /** A response that has an id was accepted. */
  #hasBegun(): boolean {
    return this.#id !== undefined;
  }

  #apply(event: JsonObject): void {
    const delta = textOr(event['delta']);
    switch (event['type']) {
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return this.#emitText(delta);
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
        return this.#emitReasoning(delta);
      case 'response.output_item.added':
        return this.#beginCall(Number(event['output_index']), fieldsOf(event['item']));
      case 'response.function_call_arguments.delta':
        return this.#addArguments(Number(event['output_index']), delta);
      default:
    }
  }

  #emitText(text: string): void {
    if (text === '') return;
    this.#grow(text);
    this.#text += text;
    this.#listener.emit({ text });
  }

  #emitReasoning(reasoning: string): void {
    if (reasoning === '') return;
    this.#grow(reasoning);
    this.#reasoning += reasoning;
    this.#listener.emit({ reasoning });
  }

  #beginCall(outputIndex: number, item: JsonObject): void {
    if (item['type'] !== 'function_call' || this.#calls.has(outputIndex)) return;
    const id = textOr(item['call_id']);
    const name = textOr(item['name']);
    const index = this.#calls.size;
    this.#calls.set(outputIndex, { id, arguments: '' });
    this.#grow(name);
    this.#listener.emit({ toolCalls: [{ index, id, type: 'function', function: { name, arguments: '' } }] });
  }

  #addArguments(outputIndex: number, delta: string): void {
    const index = [...this.#calls.keys()].indexOf(outputIndex);
    const call = this.#calls.get(outputIndex);
    if (!call || delta === '') return;
    this.#grow(delta);
    call.arguments += delta;
    this.#listener.emit({ toolCalls: [{ index, function: { arguments: delta } }] });
  }

  /** Where the pieces contradict the response, nothing is emitted: the result is what counts. */
  #emitRest(output: readonly JsonObject[]): void {
    const text = textIn(output);
    const reasoning = reasoningIn(output);
    if (reasoning.startsWith(this.#reasoning)) this.#emitReasoning(reasoning.slice(this.#reasoning.length));
    if (text.startsWith(this.#text)) this.#emitText(text.slice(this.#text.length));
    for (const [outputIndex, item] of output.entries()) {
      const [whole] = callsIn([item]);
      if (!whole) continue;
      this.#beginCall(outputIndex, item);
      const given = whole.function.arguments;
      const sent = this.#calls.get(outputIndex)?.arguments ?? '';
      if (given.startsWith(sent)) this.#addArguments(outputIndex, given.slice(sent.length));
    }
  }

  #grow(text: string): void {
    this.#chars += text.length;
    if (this.#chars > MAX_ANSWER_CHARS) throw protocolError('sent an answer that is too long');
  }
}

/** The error in an `error` event: of the documented form, or nested as other APIs have it. */
const errorOf = (event: JsonObject): unknown =>
  event['error'] ?? { code: event['code'], message: event['message'] };
