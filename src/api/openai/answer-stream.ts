/**
 * An answer as a stream. Its head is sent when the job is admitted, so whatever goes wrong from then on is told inside
 * the stream, as an object `error` in place of a piece; [DONE] comes after a whole answer only.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { TokenEvent } from '../../model/worker-wire.ts';
import { openEventStream } from '../../wire/event-stream.ts';
import { DONE, failureText } from '../stream-end.ts';
import type { Asked } from './asked.ts';
import type { JobListener } from './job-sink.ts';
import { completedOf } from './result.ts';
import { asDeltas, type Pieces } from './shapes.ts';
import { Transcript } from './transcript.ts';

export interface AnswerStreamParts {
  readonly asked: Asked;
  readonly pieces: Pieces;
  readonly includeUsage: boolean;
  readonly env: Env;
  readonly heartbeatMs: number;
  /** However it ends. */
  readonly onClose: () => void;
}

export class AnswerStream implements JobListener {
  readonly #parts: AnswerStreamParts;
  readonly #transcript = new Transcript();
  #out: Writable | undefined;
  #stopPlace: Cancel = () => undefined;
  /** What is to be written when the events of this turn are heard. */
  #text = '';
  #begun = false;
  #sentToolCalls = false;
  #over = false;

  constructor(parts: AnswerStreamParts) {
    this.#parts = parts;
  }

  run(request: IncomingMessage, response: ServerResponse): void {
    const { asked, env, heartbeatMs } = this.#parts;
    // Whoever has left meanwhile is not heard leaving any more.
    if (request.socket.destroyed) return this.#closed();
    for (const [name, value] of Object.entries(asked.headers)) response.setHeader(name, value);
    const out = openEventStream({
      request,
      response,
      timers: env.timers,
      heartbeatMs,
      onDrain: () => asked.ready(),
      onClose: () => this.#closed(),
    });
    this.#out = out;
    this.#stopPlace = asked.tellPlace((comment) => {
      if (!out.writableNeedDrain) out.write(comment);
    });
    asked.follow(this);
  }

  token(text: string, delta: TokenEvent['delta']): void {
    if (this.#over) return;
    const fresh = this.#transcript.add(text);
    if (fresh === undefined) return this.#contradicts();
    if (fresh !== '') this.#say(this.#parts.pieces.text(fresh));
    const calls = delta?.tool_calls;
    if (!Array.isArray(calls)) return;
    this.#sentToolCalls = true;
    this.#say(this.#parts.pieces.toolCalls(calls));
  }

  reset(why: 'attempt' | 'gap'): void {
    // Pieces of calls cannot be compared.
    if (this.#sentToolCalls) this.#contradicts();
    else if (why === 'attempt') this.#transcript.again();
    else this.#transcript.skip();
  }

  ended(result: unknown): void {
    if (this.#over) return;
    const { pieces, includeUsage } = this.#parts;
    const { text, toolCalls, finishReason, usage } = completedOf(result, this.#transcript.tokens);
    const rest = this.#transcript.rest(text);
    if (rest === undefined) return this.#contradicts();
    if (rest !== '') this.#say(pieces.text(rest));
    if (toolCalls.length > 0 && !this.#sentToolCalls) this.#say(pieces.toolCalls(asDeltas(toolCalls)));
    this.#say(pieces.last(finishReason));
    if (includeUsage) this.#text += pieces.usage(usage);
    this.#text += DONE;
    this.#end();
  }

  failed(error: OrchdError): void {
    if (this.#over) return;
    this.#text += failureText(error, this.#parts.asked.call.correlationId);
    this.#end();
  }

  flush(): boolean {
    const text = this.#text;
    this.#text = '';
    if (text === '' || !this.#out) return true;
    const takesMore = this.#out.write(text);
    if (this.#over) this.#out.end();
    return takesMore;
  }

  #say(text: string): void {
    if (!this.#begun) {
      this.#begun = true;
      this.#stopPlace();
      this.#text += this.#parts.pieces.first;
    }
    this.#text += text;
  }

  /** Another attempt says something else than what is out there: nobody has a use for it. */
  #contradicts(): void {
    this.failed(
      new OrchdError('EXECUTION_FAILED', 'the work was begun again after a part of its answer was sent', {
        reason: 'begun_again',
        retriable: true,
        jobId: this.#parts.asked.submitted.job_id,
      }),
    );
    this.#parts.asked.abandon();
  }

  #end(): void {
    this.#over = true;
    this.#stopPlace();
  }

  #closed(): void {
    this.#parts.onClose();
    this.#stopPlace();
    if (this.#over) return this.#parts.asked.close();
    this.#over = true;
    this.#parts.asked.abandon();
  }
}
