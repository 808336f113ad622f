/**
 * A streamed answer in OpenAI's format. The HTTP head (200) is sent as soon as the job is admitted, so a later failure
 * can only be reported inside the stream, as an `error` object instead of a chunk. `[DONE]` follows only a complete
 * answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { atOnce, type Sliced } from '../../kit/slices.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import type { TokenEvent } from '../../model/worker-wire.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import { writeInPieces } from '../../wire/pieces.ts';
import { DONE, failureText } from '../stream-end.ts';
import { reasoningOf } from './collect-output.ts';
import { type AnswerChunks, textChunks, toolCallChunks } from './formats.ts';
import type { JobListener } from './job-sink.ts';
import type { JobResult, LargeResults } from './large-results.ts';
import { completionResultOf } from './result.ts';
import type { SubmittedJob } from './submitted-job.ts';
import { Transcript } from './transcript.ts';

export interface AnswerStreamParts {
  readonly job: SubmittedJob;
  readonly chunks: AnswerChunks;
  readonly includeUsage: boolean;
  readonly results: LargeResults;
  readonly env: Env;
  readonly heartbeatMs: number;
  /** Called once the connection is closed, after a complete answer as well as after a failure or a disconnect. */
  readonly onClose: () => void;
}

export class AnswerStream implements JobListener {
  readonly #parts: AnswerStreamParts;
  readonly #transcript = new Transcript();
  /** What the model has thought. A retry may think something else: then no more of it is sent, and the answer goes on. */
  readonly #reasoning = new Transcript();
  #hasOtherThoughts = false;
  #out: Writable | undefined;
  #stopQueuePosition: Cancel = () => undefined;
  /** Chunks not written yet: `flush` writes all chunks of one batch of job events at once. */
  #pending = '';
  #hasBegun = false;
  #sentToolCalls = false;
  #isEnded = false;
  /** A large end of the answer is being written. */
  #isInPieces = false;

  constructor(parts: AnswerStreamParts) {
    this.#parts = parts;
  }

  run(request: IncomingMessage, response: ServerResponse): void {
    const { job, env, heartbeatMs } = this.#parts;
    // The client disconnected while the job was admitted: no `close` event will follow.
    if (request.socket.destroyed) return this.#onClosed();
    for (const [name, value] of Object.entries(job.headers)) response.setHeader(name, value);
    const out = openEventStream({
      request,
      response,
      timers: env.timers,
      heartbeatMs,
      onDrain: () => job.ready(),
      onClose: () => this.#onClosed(),
      isWithinEvent: () => this.#isInPieces,
    });
    this.#out = out;
    this.#stopQueuePosition = job.reportQueuePosition((comment) => {
      if (!out.writableNeedDrain) out.write(comment);
    });
    job.follow(this);
  }

  token(text: string, delta: TokenEvent['delta']): void {
    if (this.#isEnded) return;
    this.#addReasoning(reasoningOf(delta));
    const newText = this.#transcript.add(text);
    if (newText === undefined) return this.#failAsContradicted();
    if (newText !== '') this.#append(this.#parts.chunks.text(newText));
    const calls = delta?.tool_calls;
    if (!Array.isArray(calls)) return;
    this.#sentToolCalls = true;
    this.#append(this.#parts.chunks.toolCalls(calls));
  }

  reset(cause: 'attempt' | 'gap'): void {
    // Fragments of tool calls are not recorded, so repeated ones cannot be recognised and left out.
    if (this.#sentToolCalls) return this.#failAsContradicted();
    for (const transcript of [this.#transcript, this.#reasoning]) {
      if (cause === 'attempt') transcript.restart();
      else transcript.markGap();
    }
  }

  ended(result: JobResult): void {
    if (this.#isEnded) return;
    if (result.large) return void this.#endLarge(result);
    const last = atOnce(this.#lastText(result.value));
    if (last === undefined) return this.#failAsContradicted();
    this.#pending += last;
    this.#end();
  }

  failed(error: OrchdError): void {
    if (this.#isEnded) return;
    this.#pending += failureText(error, this.#parts.job.call.correlationId);
    this.#end();
  }

  flush(): boolean {
    const text = this.#pending;
    this.#pending = '';
    if (text === '' || !this.#out) return true;
    const takesMore = this.#out.write(text);
    if (this.#isEnded) this.#out.end();
    return takesMore;
  }

  /** The rest of the answer after its last token; undefined if it contradicts what was sent. */
  *#lastText(result: unknown): Sliced<string | undefined> {
    const { chunks, includeUsage } = this.#parts;
    const completed = yield* completionResultOf(result, this.#transcript.tokens);
    const { toolCalls, finishReason, usage } = completed;
    const remainder = this.#transcript.remainder(completed.text);
    if (remainder === undefined) return undefined;
    const parts = [this.#first()];
    parts.push(yield* textChunks(chunks.reasoning, this.#lastReasoning(completed.reasoning)));
    parts.push(yield* textChunks(chunks.text, remainder));
    if (!this.#sentToolCalls) parts.push(yield* toolCallChunks(chunks, toolCalls));
    parts.push(chunks.last(finishReason));
    if (includeUsage) parts.push(chunks.usage(usage));
    parts.push(DONE);
    return parts.join('');
  }

  /** The client's connection has no more events to wait for: the answer is written as the client reads it. */
  async #endLarge(result: JobResult): Promise<void> {
    const { results, env } = this.#parts;
    let isContradicted = false;
    const write = function* (stream: AnswerStream, value: unknown): Sliced<string> {
      const text = yield* stream.#lastText(value);
      isContradicted = text === undefined;
      return text ?? '';
    };
    try {
      const { pieces, release } = await results.answer(result, (value) => write(this, value));
      if (this.#out && !this.#isEnded && !isContradicted) {
        this.#end();
        this.#isInPieces = true;
        await writeInPieces(this.#out, pieces, env.timers);
        this.#out.end();
      }
      release();
      if (isContradicted) this.#failAsContradicted();
    } catch (error) {
      this.failed(toOrchdError(error));
    }
    this.flush();
  }

  #addReasoning(reasoning: string): void {
    if (reasoning === '' || this.#hasOtherThoughts) return;
    const newText = this.#reasoning.add(reasoning);
    if (newText === undefined) this.#hasOtherThoughts = true;
    else if (newText !== '') this.#append(this.#parts.chunks.reasoning(newText));
  }

  /** The part of the whole reasoning that was not sent; none if something else was sent. */
  #lastReasoning(whole: string | undefined): string {
    if (whole === undefined || this.#hasOtherThoughts) return '';
    return this.#reasoning.remainder(whole) ?? '';
  }

  #append(text: string): void {
    this.#pending += this.#first() + text;
  }

  /** The chunk that is sent before the first text or tool call; nothing after that. */
  #first(): string {
    if (this.#hasBegun) return '';
    this.#hasBegun = true;
    this.#stopQueuePosition();
    return this.#parts.chunks.first;
  }

  /** A new attempt contradicts text or tool calls that were already sent: fails the stream and gives the job up. */
  #failAsContradicted(): void {
    this.failed(
      new OrchdError('EXECUTION_FAILED', 'a retry contradicts the part of the answer that was already sent', {
        reason: 'begun_again',
        retriable: true,
        jobId: this.#parts.job.submitted.job_id,
      }),
    );
    this.#parts.job.abandon();
  }

  #end(): void {
    this.#isEnded = true;
    this.#stopQueuePosition();
  }

  #onClosed(): void {
    this.#parts.onClose();
    this.#stopQueuePosition();
    if (this.#isEnded) return this.#parts.job.close();
    this.#isEnded = true;
    this.#parts.job.abandon();
  }
}
