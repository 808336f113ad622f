/**
 * The events of a job as the parts of a streamed answer. What was sent cannot be taken back: when a new attempt begins
 * again, the text that it repeats is left out, and an attempt that says something else ends the stream with an error.
 * The beginnings of tool calls are only shown to people while they arrive: the calls themselves are sent at the end,
 * from the result, and so no program acts on one of an attempt that failed.
 */
import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { reasoningOf } from '../api/openai/collect-output.ts';
import type { JobListener } from '../api/openai/job-sink.ts';
import type { JobResult } from '../api/openai/large-results.ts';
import { Transcript } from '../api/openai/transcript.ts';
import { OrchdError } from '../model/errors.ts';
import type { TokenEvent } from '../model/worker-wire.ts';
import { type Answer, answerOf, callIdOf, type EndedJob, resultOf } from './answer.ts';
import type { CallId } from './call-ids.ts';

/** A tool call whose arguments arrive. */
interface BegunCall {
  readonly id: string;
  readonly sent: Transcript;
}

type Block = { readonly kind: 'text' | 'reasoning'; readonly id: string };

export class AnswerParts implements JobListener {
  readonly #id: CallId;
  readonly #parts: LanguageModelV4StreamPart[] = [];
  readonly #text = new Transcript();
  /** What the model has thought. A retry may think something else: then no more of it is sent, and the answer goes on. */
  readonly #reasoning = new Transcript();
  #hasOtherThoughts = false;
  #calls: (BegunCall | undefined)[] = [];
  #open: Block | undefined;
  #blocks = 0;
  /** Text and reasoning of the last attempt, for a result without them. */
  #said = { text: '', reasoning: '' };
  /** Why the answer cannot be completed. */
  error: OrchdError | undefined;
  /** The job has a result, and a part of another one was sent. */
  isContradicted = false;
  readonly #costOf: () => unknown;

  /** `costOf` is asked when the job has ended. */
  constructor(id: CallId, costOf: () => unknown) {
    this.#id = id;
    this.#costOf = costOf;
  }

  /** The parts since the last call. */
  take(): LanguageModelV4StreamPart[] {
    return this.#parts.splice(0);
  }

  token(text: string, delta: TokenEvent['delta']): void {
    if (this.error) return;
    this.#addReasoning(reasoningOf(delta));
    this.#said.text += text;
    const newText = this.#text.add(text);
    if (newText === undefined) return this.#contradict();
    this.#say('text', newText);
    const calls = delta?.tool_calls;
    if (Array.isArray(calls)) for (const call of calls) this.#addCall((call ?? {}) as CallDelta);
  }

  reset(cause: 'attempt' | 'gap'): void {
    this.#said = { text: '', reasoning: '' };
    for (const transcript of [this.#text, this.#reasoning]) {
      if (cause === 'attempt') transcript.restart();
      else transcript.markGap();
    }
    this.#endCalls();
  }

  ended(result: JobResult): void {
    this.#finish({ result: resultOf(result), cost: this.#costOf() });
  }

  failed(error: OrchdError): void {
    this.error ??= error;
  }

  flush(): boolean {
    return true;
  }

  #finish(ended: EndedJob): void {
    if (this.error) return;
    const answer = answerOf(ended, { ...this.#said, tokens: this.#text.tokens }, this.#id);
    const text = this.#text.remainder(answer.text);
    if (text === undefined) return this.#contradict();
    if (!this.#hasOtherThoughts) this.#say('reasoning', this.#reasoning.remainder(answer.reasoning) ?? '');
    this.#say('text', text);
    this.#close();
    this.#sendCalls(answer);
    const { usage, finishReason, providerMetadata } = answer;
    this.#parts.push({ type: 'finish', usage, finishReason, providerMetadata });
  }

  #addReasoning(reasoning: string): void {
    this.#said.reasoning += reasoning;
    if (reasoning === '' || this.#hasOtherThoughts) return;
    const newText = this.#reasoning.add(reasoning);
    if (newText === undefined) this.#hasOtherThoughts = true;
    else this.#say('reasoning', newText);
  }

  /** Text and reasoning are blocks: one ends where the other begins. */
  #say(kind: Block['kind'], delta: string): void {
    if (delta === '') return;
    if (this.#open?.kind !== kind) {
      this.#close();
      this.#open = { kind, id: `${kind}-${this.#blocks++}` };
      this.#parts.push({ type: `${kind}-start`, id: this.#open.id });
    }
    this.#parts.push({ type: `${kind}-delta`, id: this.#open.id, delta });
  }

  #close(): void {
    if (this.#open) this.#parts.push({ type: `${this.#open.kind}-end`, id: this.#open.id });
    this.#open = undefined;
  }

  #addCall(delta: CallDelta): void {
    const { index = 0, id, function: called } = delta;
    const begun = this.#calls[index] ?? this.#beginCall(index, callIdOf(id, index, this.#id), called?.name);
    const more = begun?.sent.add(called?.arguments ?? '') ?? '';
    if (begun && more !== '') this.#parts.push({ type: 'tool-input-delta', id: begun.id, delta: more });
  }

  #beginCall(index: number, id: string, toolName: string | undefined): BegunCall | undefined {
    // The name comes with the first piece; without it there is nothing to show.
    if (toolName === undefined || toolName === '') return undefined;
    this.#close();
    this.#parts.push({ type: 'tool-input-start', id, toolName });
    const begun = { id, sent: new Transcript() };
    this.#calls[index] = begun;
    return begun;
  }

  #endCalls(): void {
    for (const call of this.#calls) if (call) this.#parts.push({ type: 'tool-input-end', id: call.id });
    this.#calls = [];
  }

  /** The rest of the arguments, for calls that were shown in part or not at all, and then the calls. */
  #sendCalls({ toolCalls }: Answer): void {
    toolCalls.forEach(({ toolCallId, toolName, input }, index) => {
      const begun = this.#calls[index]?.id === toolCallId ? this.#calls[index] : undefined;
      const { sent } = begun ?? this.#beginCall(index, toolCallId, toolName) ?? {};
      const rest = sent?.remainder(input) ?? '';
      if (rest !== '') this.#parts.push({ type: 'tool-input-delta', id: toolCallId, delta: rest });
    });
    this.#endCalls();
    this.#parts.push(...toolCalls);
  }

  #contradict(): void {
    this.isContradicted = true;
    this.error = new OrchdError(
      'EXECUTION_FAILED',
      'a retry contradicts the part of the answer that was already sent',
      { reason: 'begun_again', retriable: true, jobId: this.#id.jobId },
    );
  }
}

/** A piece of a tool call in OpenAI's form. */
interface CallDelta {
  readonly index?: number;
  readonly id?: unknown;
  readonly function?: { readonly name?: string; readonly arguments?: string };
}
