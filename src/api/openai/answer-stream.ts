/**
 * A streamed answer in OpenAI's format. The HTTP head (200) is sent as soon as the job is admitted, so a later failure
 * can only be reported inside the stream, as an `error` object instead of a chunk. `[DONE]` follows only a complete
 * answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { TokenEvent } from '../../model/worker-wire.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import { DONE, failureText } from '../stream-end.ts';
import { type AnswerChunks, toolCallDeltas } from './formats.ts';
import type { JobListener } from './job-sink.ts';
import { completionResultOf } from './result.ts';
import type { SubmittedJob } from './submitted-job.ts';
import { Transcript } from './transcript.ts';

export interface AnswerStreamParts {
  readonly job: SubmittedJob;
  readonly chunks: AnswerChunks;
  readonly includeUsage: boolean;
  readonly env: Env;
  readonly heartbeatMs: number;
  /** Called once the connection is closed, after a complete answer as well as after a failure or a disconnect. */
  readonly onClose: () => void;
}

export class AnswerStream implements JobListener {
  readonly #parts: AnswerStreamParts;
  readonly #transcript = new Transcript();
  #out: Writable | undefined;
  #stopQueuePosition: Cancel = () => undefined;
  /** Chunks not written yet: `flush` writes all chunks of one batch of job events at once. */
  #pending = '';
  #hasBegun = false;
  #sentToolCalls = false;
  #isEnded = false;

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
    });
    this.#out = out;
    this.#stopQueuePosition = job.reportQueuePosition((comment) => {
      if (!out.writableNeedDrain) out.write(comment);
    });
    job.follow(this);
  }

  token(text: string, delta: TokenEvent['delta']): void {
    if (this.#isEnded) return;
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
    if (this.#sentToolCalls) this.#failAsContradicted();
    else if (cause === 'attempt') this.#transcript.restart();
    else this.#transcript.markGap();
  }

  ended(result: unknown): void {
    if (this.#isEnded) return;
    const { chunks, includeUsage } = this.#parts;
    const { text, toolCalls, finishReason, usage } = completionResultOf(result, this.#transcript.tokens);
    const remainder = this.#transcript.remainder(text);
    if (remainder === undefined) return this.#failAsContradicted();
    if (remainder !== '') this.#append(chunks.text(remainder));
    if (toolCalls.length > 0 && !this.#sentToolCalls)
      this.#append(chunks.toolCalls(toolCallDeltas(toolCalls)));
    this.#append(chunks.last(finishReason));
    if (includeUsage) this.#pending += chunks.usage(usage);
    this.#pending += DONE;
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

  #append(text: string): void {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#stopQueuePosition();
      this.#pending += this.#parts.chunks.first;
    }
    this.#pending += text;
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
