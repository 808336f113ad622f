/**
 * Assembles an answer from the stream of `/v1/messages`. Its events have no numbers, only the indexes of the content
 * blocks: a block that begins twice or out of its place makes the text uncertain, and is an error. What is repeated
 * outside of the blocks does no harm.
 */
import type { ExecutionResult, Usage } from '../../model/worker-wire.ts';
import { finishOf } from './anthropic-messages.ts';
import { providerStreamError } from './errors.ts';
import { fieldsOf, type JsonObject, objectOf, textOr } from './json.ts';
import { type AnswerListener, MAX_ANSWER_CHARS, resultOf, toolCall } from './openai-chat.ts';
import { protocolError } from './protocol-error.ts';
import { anthropicUsage, laterCounts, partOf, tellsUsage } from './usage.ts';

const MAX_BLOCKS = 10_000;

interface Block {
  readonly type: string;
  /** Where the block is a call: its place among the calls. */
  readonly call: PartialCall | undefined;
  isOpen: boolean;
}

interface PartialCall {
  readonly index: number;
  readonly id: string;
  readonly name: string;
  arguments: string;
}

export class MessageAnswer {
  readonly #listener: AnswerListener;
  readonly #blocks: Block[] = [];
  readonly #calls: PartialCall[] = [];
  /** The counts of `message_start` with those of `message_delta`. */
  #counts: JsonObject = {};
  #usage: Usage | undefined;
  #text = '';
  #reasoning = '';
  #chars = 0;
  #stopReason: unknown;
  #hasBegun = false;
  #ended = false;

  constructor(listener: AnswerListener) {
    this.#listener = listener;
  }

  /** The stop reason has come: nothing more of the answer follows it. */
  get finished(): boolean {
    return this.#stopReason !== undefined;
  }

  /** The last event of the stream has come. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Adds the `data` of one server-sent event. */
  add(data: string): void {
    const event = objectOf(data);
    switch (event['type']) {
      case 'message_start':
        this.#hasBegun = true;
        return this.#count(fieldsOf(event['message'])['usage']);
      case 'content_block_start':
        return this.#begin(event['index'], fieldsOf(event['content_block']));
      case 'content_block_delta':
        return this.#extend(this.#open(event['index']), fieldsOf(event['delta']));
      case 'content_block_stop':
        this.#open(event['index']).isOpen = false;
        return;
      case 'message_delta':
        this.#stopReason = fieldsOf(event['delta'])['stop_reason'] ?? this.#stopReason;
        return this.#count(event['usage']);
      case 'message_stop':
        this.#ended = true;
        return;
      case 'error':
        throw providerStreamError(event['error'], this.#hasBegun);
      default:
    }
  }

  result(): ExecutionResult {
    const calls = this.#calls.map((call) => toolCall(call.id, call.name, call.arguments || '{}'));
    return resultOf({
      text: this.#text,
      reasoning: this.#reasoning,
      finish: finishOf(this.#stopReason),
      calls,
      usage: this.#usage,
    });
  }

  /** What comes before the stop reason is only a part of what is charged, should nothing follow it. */
  #count(told: unknown): void {
    if (!tellsUsage(told)) return;
    this.#counts = laterCounts(this.#counts, fieldsOf(told));
    this.#usage = anthropicUsage(this.#counts);
    this.#listener.noteUsage(this.finished ? this.#usage : partOf(this.#usage));
  }

  #begin(index: unknown, block: JsonObject): void {
    this.#hasBegun = true;
    if (index !== this.#blocks.length || this.#blocks.length >= MAX_BLOCKS)
      throw protocolError('sent a block twice, or out of its place');
    const type = textOr(block['type']);
    const call = type === 'tool_use' ? this.#beginCall(block) : undefined;
    this.#blocks.push({ type, call, isOpen: true });
    if (type === 'text') this.#addText(textOr(block['text']));
    if (type === 'thinking') this.#addReasoning(textOr(block['thinking']));
  }

  #beginCall(block: JsonObject): PartialCall {
    const index = this.#calls.length;
    const call = { index, id: textOr(block['id']), name: textOr(block['name']), arguments: '' };
    this.#calls.push(call);
    const begun = { index, id: call.id, type: 'function', function: { name: call.name, arguments: '' } };
    this.#listener.emit({ toolCalls: [begun] });
    return call;
  }

  #open(index: unknown): Block {
    const block = this.#blocks[Number(index)];
    if (block?.isOpen) return block;
    throw protocolError('sent a part of a block that is not open');
  }

  #extend({ call }: Block, delta: JsonObject): void {
    if (delta['type'] === 'text_delta') return this.#addText(textOr(delta['text']));
    if (delta['type'] === 'thinking_delta') return this.#addReasoning(textOr(delta['thinking']));
    const part = textOr(delta['partial_json']);
    if (delta['type'] !== 'input_json_delta' || !call || part === '') return;
    this.#grow(part);
    call.arguments += part;
    this.#listener.emit({ toolCalls: [{ index: call.index, function: { arguments: part } }] });
  }

  #addText(text: string): void {
    if (text === '') return;
    this.#grow(text);
    this.#text += text;
    this.#listener.emit({ text });
  }

  #addReasoning(reasoning: string): void {
    if (reasoning === '') return;
    this.#grow(reasoning);
    this.#reasoning += reasoning;
    this.#listener.emit({ reasoning });
  }

  #grow(text: string): void {
    this.#chars += text.length;
    if (this.#chars > MAX_ANSWER_CHARS) throw protocolError('sent an answer that is too long');
  }
}
