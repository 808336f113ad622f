/**
 * A streamed answer of an agent in OpenAI's format: the words of its model as they come. The HTTP head (200) is sent as
 * soon as the run is admitted, so a later failure is an `error` object instead of a chunk; `[DONE]` follows only a
 * complete answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { RunResult } from '../../agents/run.ts';
import { runEvents } from '../../agents/run-events.ts';
import type { Env } from '../../kit/env/env.ts';
import { restOf } from '../../kit/rest-of-text.ts';
import { atOnce } from '../../kit/slices.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import { runSources } from '../run-sources.ts';
import { DONE, failureText } from '../stream-end.ts';
import { type AnswerChunks, textChunks } from './formats.ts';
import { errorOf } from './job-sink.ts';
import type { CompletionResult } from './result.ts';
import type { SubmittedJob } from './submitted-job.ts';

export interface AgentStreamParts {
  readonly job: SubmittedJob;
  readonly chunks: AnswerChunks;
  readonly includeUsage: boolean;
  readonly orchestrator: Orchestrator;
  readonly env: Env;
  readonly heartbeatMs: number;
  /** Called once the connection is closed, for whatever reason. */
  readonly onClose: () => void;
  /** Throws the error of a run that has failed. */
  readonly completed: (result: RunResult) => Promise<CompletionResult>;
}

/** Between the words of two calls of the model. */
const BLANK_LINE = '\n\n';

export class AgentStream {
  readonly #parts: AgentStreamParts;
  readonly #stop = new AbortController();
  readonly #words = new CallWords();
  #out: Writable | undefined;
  #drained = Promise.withResolvers<void>();
  #hasBegun = false;
  #isEnded = false;

  constructor(parts: AgentStreamParts) {
    this.#parts = parts;
  }

  /** Never rejects. */
  async run(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { job, env, heartbeatMs, onClose } = this.#parts;
    const closed = (): void => {
      onClose();
      this.#stop.abort();
      this.#drained.resolve();
    };
    // The client may have disconnected while the run was admitted: no `close` event will follow.
    if (request.socket.destroyed) closed();
    else {
      for (const [name, value] of Object.entries(job.headers)) response.setHeader(name, value);
      this.#out = openEventStream({
        request,
        response,
        timers: env.timers,
        heartbeatMs,
        onDrain: () => this.#drained.resolve(),
        onClose: closed,
      });
      await this.#follow();
      if (this.#isEnded) this.#out.end();
    }
    // By now nothing of this stream follows the run any more.
    if (!this.#isEnded) job.abandon();
  }

  async #follow(): Promise<void> {
    const { job, orchestrator } = this.#parts;
    const { signal } = this.#stop;
    const { tenant } = job.call.identity;
    const sources = runSources({ orchestrator, tenant, signal });
    try {
      for await (const { event, data } of runEvents(sources, job.submitted.job_id, undefined)) {
        if (signal.aborted) return;
        if (event === 'token') {
          const { t, job_id: call } = data as { t: string; job_id: string };
          await this.#say(this.#words.add(call, t));
        } else if (event === 'reset') this.#words.restart();
        else if (event === 'end') return await this.#end(data as RunResult);
        else if (event === 'error') throw errorOf(data);
      }
      if (signal.aborted) return;
      throw new OrchdError('SHUTTING_DOWN', 'orchd stopped before the answer was complete');
    } catch (error) {
      if (signal.aborted) return;
      this.#isEnded = true;
      await this.#write(failureText(toOrchdError(error), job.call.correlationId));
    }
  }

  async #end(result: RunResult): Promise<void> {
    const { chunks, includeUsage, completed } = this.#parts;
    const { text = '', finishReason, usage } = await completed(result);
    await this.#say(this.#words.last(text));
    this.#isEnded = true;
    const last = [this.#first(), chunks.last(finishReason), includeUsage ? chunks.usage(usage) : '', DONE];
    await this.#write(last.join(''));
  }

  async #say(text: string): Promise<void> {
    if (text !== '') await this.#write(this.#first() + atOnce(textChunks(this.#parts.chunks.text, text)));
  }

  /** The chunk that is sent before the first text; nothing after that. */
  #first(): string {
    if (this.#hasBegun) return '';
    this.#hasBegun = true;
    return this.#parts.chunks.first;
  }

  async #write(text: string): Promise<void> {
    if (this.#stop.signal.aborted) return;
    this.#drained = Promise.withResolvers();
    if (!this.#out?.write(text)) await this.#drained.promise;
  }
}

/** Which words are to be sent: those of each call once, also if a call begins its answer again. */
class CallWords {
  #call: string | undefined;
  /** What was sent of the call. */
  #sent = '';
  /** What the call has said since it began again; undefined while everything it says is new. */
  #repeated: string | undefined;

  add(call: string, text: string): string {
    if (text === '') return '';
    if (call !== this.#call) return this.#begin(call, text);
    if (this.#repeated === undefined) {
      this.#sent += text;
      return text;
    }
    this.#repeated += text;
    if (this.#sent.startsWith(this.#repeated)) return '';
    const rest = restOf(this.#repeated, this.#sent);
    return rest === undefined ? this.#begin(call, this.#repeated) : this.#goOn(rest);
  }

  restart(): void {
    if (this.#sent !== '') this.#repeated = '';
  }

  /** What is still to be sent of the reply. */
  last(reply: string): string {
    return reply === '' ? '' : (restOf(reply, this.#sent) ?? this.#begin(this.#call, reply));
  }

  #begin(call: string | undefined, text: string): string {
    const gap = this.#sent === '' ? '' : BLANK_LINE;
    this.#call = call;
    this.#sent = text;
    this.#repeated = undefined;
    return gap + text;
  }

  #goOn(rest: string): string {
    this.#sent += rest;
    this.#repeated = undefined;
    return rest;
  }
}
