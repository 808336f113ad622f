/**
 * Assembles an answer from what Gemini sends: the chunks of a stream, or one chunk that is the whole answer. A stream has
 * no last event: it ends with its connection, and is whole if a chunk with a `finishReason` has come. Chunks have no
 * numbers, so that one which comes twice cannot be noticed.
 */
import { OrchdError } from '../../model/errors.ts';
import type { ExecutionResult, ToolCall, Usage } from '../../model/worker-wire.ts';
import { providerStreamError } from './errors.ts';
import { signedCall } from './gemini.ts';
import { fieldsOf, isObject, type JsonObject, listOf, objectOf, textOr } from './json.ts';
import { type AnswerListener, MAX_ANSWER_CHARS, resultOf, toolCall } from './openai-chat.ts';
import { protocolError } from './protocol-error.ts';
import { geminiUsage, partOf, tellsUsage } from './usage.ts';

const MAX_CALLS = 128;
const MAX_REASON_CHARS = 100;

const FINISH_REASONS: ReadonlyMap<string, NonNullable<ExecutionResult['finish_reason']>> = new Map([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['LANGUAGE', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
  ['ESCALATION', 'content_filter'],
]);

/** Finish reasons of an answer that cannot be used, and whether the same request may get a better one. */
const FAILURES: ReadonlyMap<string, boolean> = new Map([
  ['MALFORMED_FUNCTION_CALL', true],
  ['MALFORMED_RESPONSE', true],
  ['UNEXPECTED_TOOL_CALL', true],
  ['TOO_MANY_TOOL_CALLS', true],
  ['MISSING_THOUGHT_SIGNATURE', false],
]);

export class GeminiAnswer {
  readonly #listener: AnswerListener;
  readonly #calls: ToolCall[] = [];
  #responseId = '';
  #text = '';
  #reasoning = '';
  #chars = 0;
  #finish = '';
  #finishMessage = '';
  #usage: Usage | undefined;
  #hasCounted = false;

  constructor(listener: AnswerListener) {
    this.#listener = listener;
  }

  /** A finish reason has come: nothing more of the answer follows it, except for counts. */
  get finished(): boolean {
    return this.#finish !== '';
  }

  /** Adds the `data` of one server-sent event. */
  add(data: string): void {
    this.addChunk(objectOf(data));
  }

  addChunk(chunk: JsonObject): void {
    const { error, candidates, promptFeedback, usageMetadata } = chunk;
    if (error !== undefined && error !== null) throw providerStreamError(error, this.#hasBegun());
    if (candidates === undefined && !isObject(promptFeedback) && !isObject(usageMetadata))
      throw protocolError('sent a piece without candidates');
    if (candidates !== undefined && !Array.isArray(candidates))
      throw protocolError('sent candidates that are no list');
    this.#responseId ||= textOr(chunk['responseId']);
    const blockReason = textOr(fieldsOf(promptFeedback)['blockReason']);
    this.#addCandidate(fieldsOf(listOf(candidates)[0]));
    this.#count(usageMetadata, blockReason !== '');
    if (blockReason !== '') throw blocked(blockReason, fieldsOf(promptFeedback));
  }

  /** The result, when the answer is `finished`. Throws where the model has failed to make a usable one. */
  result(): ExecutionResult {
    const retriable = FAILURES.get(this.#finish);
    if (retriable !== undefined) {
      const words = [this.#finish, this.#finishMessage].filter((word) => word !== '');
      throw new OrchdError('EXECUTION_FAILED', `the model failed: ${words.join(': ')}`, { retriable });
    }
    const finish = FINISH_REASONS.get(this.#finish) ?? 'stop';
    return resultOf({
      text: this.#text,
      reasoning: this.#reasoning,
      finish: finish === 'stop' && this.#calls.length > 0 ? 'tool_calls' : finish,
      calls: this.#calls,
      usage: this.#usage,
    });
  }

  #hasBegun(): boolean {
    return this.#chars > 0 || this.#hasCounted;
  }

  #addCandidate({ content, finishReason, finishMessage }: JsonObject): void {
    for (const part of listOf(fieldsOf(content)['parts'])) this.#addPart(fieldsOf(part));
    this.#finish ||= textOr(finishReason).slice(0, MAX_REASON_CHARS);
    this.#finishMessage ||= textOr(finishMessage).slice(0, MAX_REASON_CHARS);
  }

  #addPart({ text, thought, functionCall, thoughtSignature }: JsonObject): void {
    if (isObject(functionCall)) return this.#addCall(functionCall, textOr(thoughtSignature));
    const words = textOr(text);
    if (words === '') return;
    this.#grow(words.length);
    if (thought === true) this.#reasoning += words;
    else this.#text += words;
    this.#listener.emit(thought === true ? { reasoning: words } : { text: words });
  }

  /** A call comes as a whole. Older models give it no id, without which its result could not be assigned to it. */
  #addCall({ id, name, args }: JsonObject, signature: string): void {
    const index = this.#calls.length;
    if (index >= MAX_CALLS) throw protocolError('sent too many calls');
    const given = JSON.stringify(args ?? {});
    this.#grow(given.length + signature.length + 1);
    const call = {
      ...toolCall(textOr(id) || this.#idOf(index), textOr(name), given),
      ...(signature !== '' && signedCall(signature)),
    };
    this.#calls.push(call);
    this.#listener.emit({ toolCalls: [{ index, ...call }] });
  }

  /** An id of our own for a call; with the id of the answer, because calls of several turns are in one conversation. */
  #idOf(index: number): string {
    return `call_${this.#responseId.slice(0, MAX_REASON_CHARS)}_${index}`;
  }

  /** Every chunk tells the counts so far: those before the finish reason are only a part of what is charged. */
  #count(told: unknown, isOver: boolean): void {
    if (!tellsUsage(told)) return;
    this.#hasCounted = true;
    this.#usage = geminiUsage(told);
    this.#listener.noteUsage(this.finished || isOver ? this.#usage : partOf(this.#usage));
  }

  #grow(chars: number): void {
    this.#chars += chars;
    if (this.#chars > MAX_ANSWER_CHARS) throw protocolError('sent an answer that is too long');
  }
}

/** The same prompt would be blocked again. */
function blocked(reason: string, { blockReasonMessage }: JsonObject): OrchdError {
  const words = [reason, textOr(blockReasonMessage)].filter((word) => word !== '').join(': ');
  const text = `the provider has blocked the prompt: ${words.slice(0, MAX_REASON_CHARS)}`;
  return new OrchdError('EXECUTION_FAILED', text, { retriable: false });
}
